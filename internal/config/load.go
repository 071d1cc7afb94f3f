package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/jobs/effect/forward"
	"github.com/oncegate/oncegate/providers"
)

// DefaultFile is the file that [Load] reads from the working directory if it exists and no file is
// named.
const DefaultFile = "oncegate.yml"

// Options configures [Load].
type Options struct {
	// File is the configuration file. If it is empty, Load reads the file that ONCEGATE_CONFIG
	// names, else [DefaultFile] if it exists, else only the environment.
	File string

	// Content, if not nil, is used instead of reading the file; File is then only a name for
	// messages.
	Content []byte

	// Environ is the environment in the form of os.Environ.
	Environ []string

	// Catalog contains the built-in providers. It is required unless DatabaseOnly is set. Load asks
	// only for the providers that the configuration names.
	Catalog providers.Catalog

	// Dev allows targets of kind dev.
	Dev bool

	// WithoutDatabase loads a configuration that names no database, for commands that use none.
	WithoutDatabase bool

	// Handlers allows routes without a target. The Go program attaches a function to each of them
	// by the route's name.
	Handlers bool

	// DatabaseOnly reads only the sections that a command needs to connect to the database. Load
	// ignores sources, targets and their secrets.
	DatabaseOnly bool

	// Archive reads the section of the archive too, although DatabaseOnly is set.
	Archive bool

	// Database, if set, is the name of a database. Load returns its part of the configuration: see [Config.Part].
	Database string

	// Homes, if set, gets the whole configuration before Load takes the part of Database. It says where sources live that have moved: see
	// [Config.Reside].
	Homes func(whole *Config)

	// Definitions are the sources in the database. Load adds them to the sources in the file.
	Definitions Definitions

	// Now defaults to time.Now. Only warnings depend on it.
	Now func() time.Time

	// KeyringLater accepts a keyring that cannot be read yet. The command that creates the keyring
	// sets it.
	KeyringLater bool
}

// Load reads the configuration. Its error is [Problems], also if the file cannot be read.
func Load(o Options) (*Config, error) {
	r := &reader{
		env: newEnvironment(o.Environ), report: &yamltree.Report{Redact: RedactURLs}, handlers: o.Handlers, dev: o.Dev, catalog: o.Catalog,
		unusable: map[string]bool{}, badVariables: map[string]bool{}, takingNothing: map[[2]string]string{}, sourceNames: map[string]bool{},
	}
	cfg := &Config{Database: Database{Name: DefaultDatabase}, Classes: builtInClasses(), Providers: providers.Map{}}
	r.cfg = cfg
	start(cfg.keys())
	content, err := r.open(o)
	if err != nil {
		return nil, err
	}
	cfg.Origin = r.report.File
	if r.root = yamltree.Parse(content, r.report); r.root != nil {
		r.sections(o)
		r.overrides("", cfg.keys(), o)
		if !o.DatabaseOnly {
			r.quickstart(cfg)
		}
		r.checkSeal(cfg, o)
		if o.Archive || !o.DatabaseOnly {
			r.checkArchive(cfg, o)
		}
		r.check(cfg, o)
	}
	if err := r.report.Err(); err != nil {
		return nil, err
	}
	sortByName(cfg)
	now := o.Now
	if now == nil {
		now = time.Now
	}
	r.warn(cfg, now())
	cfg.Warnings, cfg.references = r.warnings, maps.Clone(r.env.led)
	cfg.fingerprint = sync.OnceValue(cfg.digest)
	if o.Homes != nil {
		o.Homes(cfg)
	}
	if o.Database != "" {
		return cfg.Part(o.Database), nil
	}
	return cfg, nil
}

const day = 24 * time.Hour

func (r *reader) open(o Options) ([]byte, error) {
	if o.Content != nil {
		r.report.File = o.File
		return o.Content, nil
	}
	path := o.File
	if path == "" {
		named, ok, err := r.env.lookup("ONCEGATE_CONFIG")
		if err != nil {
			return nil, Problems{{Text: err.Error()}}
		}
		if ok {
			path = named
		}
	}
	optional := path == ""
	path = cmp.Or(path, DefaultFile)
	content, err := os.ReadFile(path)
	if optional && errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, Problems{{Text: fmt.Sprintf("reading the configuration: %v", err)}}
	}
	r.report.File = path
	return content, nil
}

// sections reads the sections in the order of their dependencies, independent of their order in the
// file.
func (r *reader) sections(o Options) {
	keys := r.cfg.keys()
	known := map[string]func(*yamltree.Node){}
	for _, k := range keys {
		known[k.Name] = func(*yamltree.Node) {}
	}
	r.root.Fields(known)
	for _, k := range keys {
		n := r.root.Member(k.Name)
		if n == nil || k.read == nil || o.DatabaseOnly && !slices.Contains([]string{"database", "databases", "seal", "suppressions"}, k.Name) && !(o.Archive && k.Name == "archive") {
			continue
		}
		k.read(r, n)
	}
	if !o.DatabaseOnly {
		if n := r.root.Member("include"); n != nil {
			r.include(n)
		}
		r.stored(o.Definitions.Sources, cmp.Or(o.Definitions.Database, DefaultDatabase))
		r.cfg.Revision = o.Definitions.Revision
		r.checkSourceNames()
		r.fields(r.root.Member("console"), r.cfg.Console.keys())
		r.checkSuppress(r.cfg)
		r.checkNotifications(r.cfg)
	}
}

// check makes the checks that need more than one section.
func (r *reader) check(cfg *Config, o Options) {
	if cfg.Database.URL == "" && !o.Dev && !o.WithoutDatabase && r.sound("database.url") {
		r.report.Add("no database: set DATABASE_URL (postgres://user:password@host:5432/database) or database.url")
	}
	if _, err := connectionString(cfg.Database.URL); cfg.Database.URL != "" && err != nil {
		r.report.Add("database.url: %v", err)
	}
	if o.DatabaseOnly {
		r.checkDatabaseNames(cfg, o)
		return
	}
	if len(cfg.Sources) == 0 && r.report.Len() == 0 && !r.root.Member("sources").IsMapping() {
		r.report.Add("no source: name a configuration file (--config) or set ONCEGATE_SOURCE_PROVIDER and ONCEGATE_SOURCE_SECRET; sources: {} says that all are in the database")
	}
	for _, s := range cfg.Sources {
		r.retention(cfg, s)
	}
	r.checkDatabases(cfg, o)
	r.checkDurability(cfg)
	r.checkBodies(cfg)
	r.checkBuffer(cfg)
	r.checkConsole(cfg)
	if l := cfg.Listen; l.Connections > 0 && l.ConnectionsPerPeer > l.Connections && r.sound("listen") {
		r.report.Add("listen.connections_per_peer: %d is more than listen.connections, %d; lower it or leave it out", l.ConnectionsPerPeer, l.Connections)
	}
	if l := cfg.Listen; sameAddress(l.Public, l.Admin) && r.sound("listen") {
		r.report.Add("listen.admin: %s is also listen.public, and one of them could not be opened; give them different ports", l.Admin)
	}
	lease := cmp.Or(cfg.Work.Lease, inbox.DefaultLease)
	longest := lease - min(lease/5, 5*time.Second) // the rest is for recording the outcome
	for _, s := range cfg.Sources {
		for _, route := range s.Routes {
			attempt := route.Timeout
			if route.Fetch != nil {
				attempt += cmp.Or(route.Fetch.Timeout, min(forward.DefaultFetchTimeout, longest/2))
			}
			if attempt > longest && r.sound("work.lease") {
				route.node.Fail("an attempt of %s does not fit into work.lease of %s; at most %s does",
					yamltree.FormatDuration(attempt), yamltree.FormatDuration(lease), yamltree.FormatDuration(longest))
			}
		}
	}
	for _, name := range r.env.unknown() {
		r.report.Add("unknown environment variable %s: Oncegate reads none of that name, and no secret refers to it", name)
	}
}

func sortByName(cfg *Config) {
	slices.SortFunc(cfg.Databases, func(a, b *Database) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(cfg.Classes, func(a, b *Class) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(cfg.Tenants, func(a, b *Tenant) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(cfg.Targets, func(a, b *Target) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(cfg.Sources, func(a, b *Source) int { return cmp.Compare(a.Name, b.Name) })
}
