package config

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"
	"sync"

	"github.com/oncegate/oncegate/internal/yamltree"
)

// DefaultDatabase is the name of the database that the section `database` configures.
const DefaultDatabase = "default"

// databases reads the section databases.
func (r *reader) databases(n *yamltree.Node) {
	for _, member := range n.Members() {
		if !r.named(member) {
			continue
		}
		d := &Database{Name: member.Name()}
		r.fields(member, d.keys())
		switch {
		case d.Name == DefaultDatabase:
			member.FailKey("the section `database` configures the default database; choose another name")
			continue
		case d.URL == "" && member.Sound():
			member.Fail("needs url: the connection string of PostgreSQL")
		}
		r.cfg.Databases = append(r.cfg.Databases, d)
	}
}

// DatabaseNames returns the names of all databases, the default one first.
func (c *Config) DatabaseNames() []string {
	names := []string{c.Database.Name}
	for _, d := range c.Databases {
		names = append(names, d.Name)
	}
	return names
}

// HomeOf returns the name of the database in which a source lives. It is empty for a name that no source has or had.
func (c *Config) HomeOf(source string) string {
	s := c.called(source)
	switch {
	case s == nil:
		return ""
	case s.Departed:
		return s.MovedTo
	}
	return c.homeOf(s)
}

// called returns the source that has or had a name, or nil.
func (c *Config) called(name string) *Source {
	for _, s := range c.Sources {
		if s.Name == name || slices.Contains(s.Previous.Names, name) {
			return s
		}
	}
	return nil
}

// Reside says that a source lives in a database, whatever the file says, because it has moved there from others.
func (c *Config) Reside(source, database string, left []string) {
	if s := c.called(source); s != nil {
		s.Database, s.Left = database, left
	}
}

func (c *Config) homeOf(s *Source) string {
	home := s.Database
	if home == "" && s.Tenant != "" {
		for _, t := range c.Tenants {
			if t.Name == s.Tenant {
				home = t.Database
			}
		}
		if home == "" {
			home = spread(s.Tenant, c.Spread)
		}
	}
	return cmp.Or(home, c.Database.Name)
}

// spread selects the database whose digest with the tenant's name is the greatest, or "" if there is none. A further database
// therefore takes some tenants, and the others keep theirs. Never change the digest: tenants would change their database.
func spread(tenant string, databases []string) (selected string) {
	var greatest [sha256.Size]byte
	for _, name := range databases {
		if d := sha256.Sum256([]byte(name + "\x00" + tenant)); selected == "" || slices.Compare(d[:], greatest[:]) > 0 {
			selected, greatest = name, d
		}
	}
	return selected
}

// Part returns the configuration for one database: its connections and the sources that live in it. It returns nil for an unknown name.
// With a single database it returns the whole configuration.
func (c *Config) Part(name string) *Config {
	if len(c.Databases) == 0 && name == c.Database.Name {
		return c
	}
	part := *c
	part.Databases, part.Spread, part.Sources, part.Warnings = nil, nil, nil, nil
	if name != c.Database.Name {
		at := slices.IndexFunc(c.Databases, func(d *Database) bool { return d.Name == name })
		if at < 0 {
			return nil
		}
		part.Database = c.Databases[at].like(&c.Database)
		// Databases do not share a stream or a directory, because each part knows only its own sources.
		if part.Buffer.On() {
			part.Buffer.Stream = c.bufferStream(name)
		}
		if part.Archive.URL != "" {
			part.Archive.URL = strings.TrimSuffix(part.Archive.URL, "/") + "/" + name
		}
	}
	others := map[string]bool{}
	for _, s := range c.Sources {
		switch {
		case c.homeOf(s) == name:
			part.Sources = append(part.Sources, s)
			continue
		case slices.Contains(s.Left, name):
			left := *s
			left.Departed, left.MovedTo, left.MovedStream = true, c.homeOf(s), c.bufferStream(c.homeOf(s))
			left.Disabled, left.From, left.Reconcile = true, nil, nil
			part.Sources = append(part.Sources, &left)
		}
		others[s.Name] = true
	}
	for _, warning := range c.Warnings {
		source, _, _ := strings.Cut(strings.TrimPrefix(warning, "sources."), ".")
		source, _, _ = strings.Cut(source, ":")
		about := strings.HasPrefix(warning, "sources.")
		if about && !others[source] || !about && name == c.Database.Name {
			part.Warnings = append(part.Warnings, warning)
		}
	}
	part.fingerprint = sync.OnceValue(part.digest)
	return &part
}

// Together has all sources live in one database, for development.
func (c *Config) Together() {
	c.Databases, c.Spread = nil, nil
	for _, t := range c.Tenants {
		t.Database = ""
	}
	for _, s := range c.Sources {
		s.Database = ""
	}
}

// like returns the database with its missing settings copied from another one.
func (d *Database) like(other *Database) Database {
	out := *d
	out.Schema = cmp.Or(d.Schema, other.Schema)
	out.Durability = cmp.Or(d.Durability, other.Durability)
	out.GateConnections = cmp.Or(d.GateConnections, other.GateConnections)
	out.WorkConnections = cmp.Or(d.WorkConnections, other.WorkConnections)
	out.QueueConnections = cmp.Or(d.QueueConnections, other.QueueConnections)
	return out
}

// checkDatabaseNames refuses to load the part of a database that the configuration does not have.
func (r *reader) checkDatabaseNames(cfg *Config, o Options) {
	if names := cfg.DatabaseNames(); o.Database != "" && !slices.Contains(names, o.Database) && r.sound("databases") {
		r.report.Add("no database is named %s; %sthose of the configuration are %s", visible(o.Database), yamltree.DidYouMean(names, o.Database), strings.Join(names, ", "))
	}
}

// checkDatabases checks the names of databases wherever they are written, and that no two names mean the same database.
func (r *reader) checkDatabases(cfg *Config, o Options) {
	r.checkDatabaseNames(cfg, o)
	if !r.sound("databases") {
		return
	}
	names := cfg.DatabaseNames()
	known := func(where, name string) {
		if name != "" && !slices.Contains(names, name) {
			r.report.Add("%s: no database is named %s; %sthose of the configuration are %s", where, visible(name), yamltree.DidYouMean(names, name), strings.Join(names, ", "))
		}
	}
	for _, name := range cfg.Spread {
		known("spread", name)
	}
	for _, t := range cfg.Tenants {
		known("tenants."+t.Name+".database", t.Database)
	}
	for _, s := range cfg.Sources {
		known("sources."+s.Name+".database", s.Database)
	}
	all := make([]Database, 0, len(names))
	all = append(all, cfg.Database)
	for _, d := range cfg.Databases {
		one := d.like(&cfg.Database)
		for i := range all {
			if one.Schema == all[i].Schema && sameDatabase(one.URL, all[i].URL) {
				r.report.Add("databases.%s: it is the same database as %s; leave one of them out", one.Name, all[i].Name)
			}
		}
		all = append(all, one)
	}
}

// bufferStream returns the name of the stream in which the buffer keeps the deliveries of the sources of a database.
func (c *Config) bufferStream(database string) string {
	name := cmp.Or(c.Buffer.Stream, defaultBufferStream)
	if database != DefaultDatabase {
		name += "-" + database
	}
	return name
}
