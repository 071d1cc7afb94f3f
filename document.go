package oncegate

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// document converts a Config into a configuration file, so that one reader checks both. It contains
// references instead of secrets.
type document struct {
	environment map[string]string // the values of the references in the document
	values      int
	problems    config.Problems
}

// object is a part of the document. put omits zero values.
type object map[string]any

func (o object) put(key string, value any, zero bool) {
	if !zero {
		o[key] = value
	}
}

func (o object) text(key, value string)               { o.put(key, value, value == "") }
func (o object) number(key string, n int64)           { o.put(key, n, n == 0) }
func (o object) list(key string, values []string)     { o.put(key, values, len(values) == 0) }
func (o object) yes(key string, is bool)              { o.put(key, is, !is) }
func (o object) inside(key string, part object)       { o.put(key, part, len(part) == 0) }
func (o object) duration(key string, d time.Duration) { o.put(key, durationText(d), d == 0) }

// durationText returns a duration in the syntax of the file. The reader rejects a duration that the
// file cannot express.
func durationText(d time.Duration) string {
	if d < 0 || d%time.Millisecond != 0 {
		return d.String()
	}
	return yamltree.FormatDuration(d)
}

func (d *document) problem(format string, args ...any) {
	d.problems = append(d.problems, config.Problem{Text: fmt.Sprintf(format, args...)})
}

// write returns the document for a Config.
func (d *document) write(c *Config) ([]byte, error) {
	root, database, work := object{}, object{}, object{}
	database.text("schema", c.Schema)
	database.number("gate_connections", int64(c.GateConnections))
	database.number("work_connections", int64(c.WorkConnections))
	database.number("queue_connections", int64(c.QueueConnections))
	root.inside("database", database)
	work.number("workers", int64(c.Workers))
	work.duration("lease", c.Lease)
	root.inside("work", work)
	root.duration("drain", c.Drain)
	if len(c.TrustedProxies) > 0 {
		root["listen"] = object{"trusted_proxies": prefixes(c.TrustedProxies)}
	}
	switch k := c.Keyring; {
	case k.none():
	case k.parts().from == "":
		d.problem("Keyring: must be where the keys are, Env or File: they are read again when they are rotated")
	default:
		root["seal"] = object{"keyring": d.reference(k)}
	}
	d.named(root, "sources", len(c.Sources), func(i int) (string, object) { return c.Sources[i].Name, d.source(&c.Sources[i]) })
	d.named(root, "tenants", len(c.Tenants), func(i int) (string, object) {
		tenant := object{}
		tenant.text("new_keys", c.Tenants[i].NewKeys)
		return c.Tenants[i].Name, tenant
	})
	d.named(root, "targets", len(c.Targets), func(i int) (string, object) { return c.Targets[i].Name, d.target(&c.Targets[i]) })
	providers := object{}
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		text, err := yaml.YAMLToJSON([]byte(c.Providers[name]))
		if err != nil {
			d.problem("Providers[%q]: not YAML: %s", name, strings.SplitN(strings.TrimSpace(err.Error()), "\n", 2)[0])
			continue
		}
		providers[name] = json.RawMessage(text)
	}
	root.inside("providers", providers)
	if len(d.problems) > 0 {
		return nil, d.problems
	}
	text, err := json.Marshal(root) // JSON is YAML
	if err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	return text, nil
}

// named converts a list into a mapping by name. It reports a name that occurs twice, because one of
// the two would be lost.
func (d *document) named(root object, key string, n int, part func(i int) (string, object)) {
	d.namedAt(root, key, key, n, part)
}

// namedAt is like named, for a list whose path in problems differs from its key.
func (d *document) namedAt(root object, key, path string, n int, part func(i int) (string, object)) {
	out := object{}
	for i := range n {
		name, o := part(i)
		switch {
		case name == "":
			d.problem("%s[%d]: Name is empty", path, i)
		case out[name] != nil:
			d.problem("%s.%s: two have this name", path, name)
		}
		out[name] = o
	}
	root.inside(key, out)
}

func (d *document) source(s *Source) object {
	out := object{"routes": d.routes(s)}
	out.text("provider", s.Provider)
	out.list("previous_names", s.PreviousNames)
	out.put("secrets", d.secrets(s.Secrets), len(s.Secrets) == 0)
	d.credentials(out, s)
	settings := object{}
	for name, values := range s.Settings {
		for _, value := range values {
			if strings.HasPrefix(value, "env:") || strings.HasPrefix(value, "file:") {
				d.reference(newSecret(secretParts{from: value}))
			}
		}
		if settings[name] = values; len(values) == 1 {
			settings[name] = values[0]
		}
	}
	out.inside("settings", settings)
	out.text("class", s.Class)
	out.text("tenant", s.Tenant)
	out.text("external_url", s.ExternalURL)
	out.number("max_body", s.MaxBody)
	switch {
	case s.Rearm == -1:
		out["rearm"] = "off"
	default:
		out.number("rearm", int64(s.Rearm))
	}
	out.yes("emit", s.Emit)
	out.yes("shadow", s.Shadow)
	out.list("redact", s.Redact)
	return out
}

// credentials adds the credentials of a source, by name.
func (d *document) credentials(source object, s *Source) {
	d.namedAt(source, "credentials", "sources."+s.Name+".credentials", len(s.Credentials), func(i int) (string, object) {
		c, out := &s.Credentials[i], object{}
		secrets := d.secrets(c.Secrets)
		for _, secret := range secrets {
			delete(secret, "name") // they have the credential's name
		}
		out.put("secrets", secrets, len(c.Secrets) == 0)
		out.text("tenant", c.Tenant)
		out.list("operations", c.Operations)
		out.text("new_keys", c.NewKeys)
		return c.Name, out
	})
}

func (d *document) routes(s *Source) []object {
	out := make([]object, len(s.Routes))
	names := map[string]bool{}
	for i := range s.Routes {
		r := &s.Routes[i]
		if names[r.Name] && r.Name != "" {
			d.problem("sources.%s.routes.%s: two have this name", s.Name, r.Name)
		}
		names[r.Name] = true
		route, order, key := object{}, object{}, object{}
		route.text("name", r.Name)
		route.list("previous_names", r.PreviousNames)
		route.list("types", r.Types)
		route.text("target", r.Target)
		route.text("when", r.When)
		route.inside("fetch", d.fetch(&r.Fetch))
		o := &r.Order
		for name, value := range map[string]string{
			"mode": o.Mode, "key": o.Key, "number": o.Number, "on_gap": o.OnGap, "on_dead": o.OnDead, "late": o.Late,
			"no_key": o.NoKey, "no_number": o.NoNumber, "ties": o.Ties, "start": o.Start,
		} {
			order.text(name, value)
		}
		order.duration("patience", o.Patience)
		order.duration("warn", o.Warn)
		order.duration("settle", o.Settle)
		route.inside("order", order)
		key.list("fields", r.Key.Fields)
		key.number("version", int64(r.Key.Version))
		key.duration("within", r.Key.Within)
		key.duration("keep", r.Key.Keep)
		key.list("exclude", r.Key.Exclude)
		route.inside("key", key)
		route.put("map", r.Map, r.Map == nil)
		route.inside("retry", retry(&r.Retry))
		route.duration("timeout", r.Timeout)
		out[i] = route
	}
	return out
}

func retry(r *Retry) object {
	out := object{}
	out.number("attempts", int64(r.Attempts))
	out.duration("base", r.Base)
	out.duration("max", r.Max)
	out.duration("deadline", r.Deadline)
	return out
}

func (d *document) fetch(f *Fetch) object {
	out := object{}
	out.text("url", f.URL)
	out.list("hosts", f.Hosts)
	if !f.Bearer.none() {
		out["bearer"] = d.secrets([]Secret{f.Bearer})
	}
	out.inside("headers", d.headers(f.Headers))
	out.put("allow", prefixes(f.Allow), len(f.Allow) == 0)
	out.duration("timeout", f.Timeout)
	out.number("max_size", f.MaxSize)
	return out
}

func (d *document) headers(all map[string]Secret) object {
	out := object{}
	for name, value := range all {
		out[name] = d.reference(value)
	}
	return out
}

func (d *document) target(t *Target) object {
	out := object{}
	switch {
	case t.Call != "" && t.URL != "":
		d.problem("targets.%s: URL and Call exclude each other", t.Name)
	case t.Call != "":
		out["kind"], out["call"] = string(config.KindSQL), t.Call
	default:
		out["kind"] = string(config.KindForward)
		out.text("url", t.URL)
	}
	out.put("sign", d.secrets(t.Sign), len(t.Sign) == 0)
	out.inside("headers", d.headers(t.Headers))
	out.put("allow", prefixes(t.Allow), len(t.Allow) == 0)
	if t.Idempotent != nil {
		out["idempotent"] = *t.Idempotent
	}
	out.number("concurrency", int64(t.Concurrency))
	out.inside("retry", retry(&t.Retry))
	out.duration("timeout", t.Timeout)
	return out
}

// secrets returns secrets as a list of references.
func (d *document) secrets(all []Secret) []object {
	out := make([]object, len(all))
	for i, s := range all {
		scheme, rest, _ := strings.Cut(d.reference(s), ":")
		out[i] = object{scheme: rest}
		if s.none() {
			continue
		}
		p := s.parts()
		if p.from == "" {
			out[i]["name"] = rest
		}
		out[i].put("until", p.until.UTC().Format(time.RFC3339Nano), p.until.IsZero())
	}
	return out
}

// reference returns a secret in the form of the document, and adds the variables needed to read it
// to d.environment.
func (d *document) reference(s Secret) string {
	if s.none() {
		d.problem("a Secret is empty: make it by Env, File or Value")
		return ""
	}
	p := s.parts()
	if p.from == "" {
		d.values++
		name := "value-" + strconv.Itoa(d.values)
		d.environment[name] = p.value
		return "env:" + name
	}
	if name, ok := strings.CutPrefix(p.from, "env:"); ok {
		for _, name := range []string{name, name + "_FILE"} {
			if value, set := lookupEnvironment(name); set {
				d.environment[name] = value
			}
		}
	}
	return p.from
}

func prefixes(all []netip.Prefix) []string {
	out := make([]string, len(all))
	for i, p := range all {
		out[i] = p.String()
	}
	return out
}
