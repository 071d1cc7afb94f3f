package config

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/internal/yamltree"
)

// Fingerprint returns a digest that changes when the configuration does and reveals nothing about
// its content. It excludes the settings that may differ between the processes of one installation:
// the database's address and connections, the listeners, the console, the memory for bodies and the
// log.
func (c *Config) Fingerprint() string {
	var shared yaml.MapSlice
	for _, part := range c.effective() { // not redacted, so that a changed token changes the digest
		if !slices.Contains([]any{"database", "listen", "console", "bodies", "log"}, part.Key) {
			shared = append(shared, part)
		}
	}
	text, err := yaml.Marshal(shared)
	if err != nil { // strings, numbers and lists of them always marshal
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// Effective returns the effective configuration in the form of the file, ready for YAML or JSON. It
// contains references instead of secrets, and addresses without their credentials.
func (c *Config) Effective() yaml.MapSlice { return redactTree(c.effective()) }

// effective is Effective without redacted addresses. Do not show its result.
func (c *Config) effective() yaml.MapSlice {
	sources, targets, classes := yaml.MapSlice{}, yaml.MapSlice{}, yaml.MapSlice{}
	for _, class := range c.Classes {
		classes = append(classes, item(class.Name, class.effective()))
	}
	for _, t := range c.Targets {
		targets = append(targets, item(t.Name, t.effective()))
	}
	for _, s := range c.Sources {
		sources = append(sources, item(s.Name, s.effective()))
	}
	out := yaml.MapSlice{
		item("database", c.Database.effective()),
		item("listen", c.Listen.effective()),
		item("log", yaml.MapSlice{item("level", strings.ToLower(c.Log.Level.String())), item("format", c.Log.Format), item("events", string(c.Log.Events))}),
	}
	if console := c.Console.effective(); len(console) > 0 {
		out = append(out, item("console", console))
	}
	if c.Seal.Keyring != "" {
		out = append(out, item("seal", yaml.MapSlice{item("keyring", c.Seal.Keyring)}))
	}
	if c.Suppressions.HashOnly {
		out = append(out, item("suppressions", yaml.MapSlice{item("hash_only", true)}))
	}
	gate := yaml.MapSlice{}
	gate = number(gate, "queue_events", int64(c.Gate.QueueEvents))
	gate = number(gate, "queue_bytes", c.Gate.QueueBytes)
	gate = duration(gate, "deadline", c.Gate.Deadline)
	if len(gate) > 0 {
		out = append(out, item("gate", gate))
	}
	if bodies := c.effectiveBodies(); len(bodies) > 0 {
		out = append(out, item("bodies", bodies))
	}
	work := number(yaml.MapSlice{}, "workers", int64(c.Work.Workers))
	work = duration(work, "lease", c.Work.Lease)
	work = duration(work, "sweep_every", c.Work.SweepEvery)
	if len(work) > 0 {
		out = append(out, item("work", work))
	}
	out = append(out, item("drain", yamltree.FormatDuration(c.Drain)), item("classes", classes))
	if len(c.Custom) > 0 {
		custom := yaml.MapSlice{}
		for _, name := range c.Custom {
			custom = append(custom, item(name, c.Providers[name].Spec()))
		}
		out = append(out, item("providers", custom))
	}
	if len(c.Tenants) > 0 {
		out = append(out, item("tenants", effectiveTenants(c.Tenants)))
	}
	return append(out, item("targets", targets), item("sources", sources))
}

func (d *Database) effective() yaml.MapSlice {
	out := yaml.MapSlice{item("url", RedactURL(d.URL))}
	if d.ListURL != "" {
		out = append(out, item("list_url", RedactURL(d.ListURL)))
	}
	return append(
		out, item("schema", d.Schema), item("durability", d.Durability),
		item("gate_connections", d.GateConnections), item("work_connections", d.WorkConnections), item("queue_connections", d.QueueConnections),
	)
}

func (l *Listen) effective() yaml.MapSlice {
	out := yaml.MapSlice{item("public", l.Public), item("admin", l.Admin), item("trusted_proxies", prefixTexts(l.TrustedProxies))}
	out = number(out, "connections", int64(l.Connections))
	out = number(out, "connections_per_peer", int64(l.ConnectionsPerPeer))
	out = duration(out, "header_timeout", l.HeaderTimeout)
	return duration(out, "idle_timeout", l.IdleTimeout)
}

func (t *Target) effective() yaml.MapSlice {
	out := yaml.MapSlice{item("kind", string(t.Kind))}
	switch t.Kind {
	case KindForward:
		out = append(out, item("url", t.URL))
		if len(t.Sign) > 0 {
			out = append(out, item("sign", references(t.Sign)))
		}
		out = append(out, item("idempotent", t.Idempotent), item("key_header", t.KeyHeader))
		if t.RetryOn != nil {
			out = append(out, item("retry_on", t.RetryOn))
		}
		if len(t.Headers) > 0 {
			headers := yaml.MapSlice{}
			for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
				headers = append(headers, item(name, "<secret>"))
			}
			out = append(out, item("headers", headers))
		}
		if len(t.PassHeaders) > 0 {
			out = append(out, item("pass_headers", t.PassHeaders))
		}
		if t.ReplayedHeader != "" {
			out = append(out, item("replayed_header", t.ReplayedHeader))
		}
		if t.KeepReply {
			out = append(out, item("keep_reply", true))
		}
		out = duration(out, "key_window", t.KeyWindow)
		out = t.Probe.append(out)
		out = t.DryRun.append(out)
		if t.Method != "" {
			out = append(out, item("method", t.Method))
		}
		if len(t.Allow) > 0 {
			out = append(out, item("allow", prefixTexts(t.Allow)))
		}
	case KindSQL:
		out = t.sql(out)
	case KindMail:
		out = t.mail(out)
	case KindSuppress:
		out = t.Suppress.append(out)
	case KindNoop, KindDev, KindHandler:
	}
	out = number(out, "concurrency", int64(t.Concurrency))
	if t.Rate.N > 0 {
		out = append(out, item("rate", t.Rate.String()))
	}
	out = t.Breaker.append(out)
	out = duration(out, "timeout", t.Timeout)
	return t.Retry.append(out)
}

func (t *Target) sql(out yaml.MapSlice) yaml.MapSlice {
	if t.KeepReply {
		out = append(out, item("keep_reply", true))
	}
	if len(t.DeadOn) > 0 {
		out = append(out, item("dead_on", t.DeadOn))
	}
	if t.Call != "" {
		return append(out, item("call", t.Call))
	}
	out = append(out, item("statement", t.Statement))
	parameters := yaml.MapSlice{}
	for _, name := range slices.Sorted(maps.Keys(t.Parameters)) {
		parameters = append(parameters, item(name, t.Parameters[name].String()))
	}
	return append(out, item("parameters", parameters))
}

func (s *Source) effective() yaml.MapSlice {
	out := yaml.MapSlice{
		item("provider", s.Provider.Name()), item("secrets", references(s.Secrets)), item("class", s.Class),
	}
	if len(s.Credentials) > 0 { // credentials and secrets exclude each other
		out = append(appendCredentials(yaml.MapSlice{out[0]}, s.Credentials), out[2:]...)
	}
	out = s.Previous.append(out)
	if s.Tenant != "" {
		out = append(out, item("tenant", s.Tenant))
	}
	if s.ExternalURL != "" {
		out = append(out, item("external_url", s.ExternalURL))
	}
	if len(s.Settings) > 0 {
		settings := yaml.MapSlice{}
		for _, name := range slices.Sorted(maps.Keys(s.Settings)) {
			settings = append(settings, item(name, s.Settings[name].Written))
		}
		out = append(out, item("settings", settings))
	}
	out = number(out, "max_body", s.MaxBody)
	switch {
	case s.Rearm < 0:
		out = append(out, item("rearm", "off"))
	case s.Rearm > 0:
		out = append(out, item("rearm", s.Rearm))
	}
	if s.AnswerOutcome {
		out = append(out, item("answer_duplicates", "outcome"))
	}
	if s.Emit {
		out = append(out, item("emit", true))
	}
	if len(s.Redact) > 0 {
		out = append(out, item("redact", s.Redact))
	}
	out = s.appendLabels(out)
	out = s.Operation.append(out)
	out = s.Sessions.append(out)
	out = s.appendOperations(out)
	routes := make([]yaml.MapSlice, len(s.Routes))
	for i, route := range s.Routes {
		routes[i] = yaml.MapSlice{
			item("name", route.Name), item("types", route.Types), item("target", route.Target.Name),
			item("order", route.Order.Effective()),
		}
		routes[i] = route.Previous.append(routes[i])
		if route.When != nil {
			routes[i] = append(routes[i], item("when", route.When.String()))
		}
		routes[i] = route.Key.append(routes[i])
		if route.Map != nil {
			routes[i] = append(routes[i], item("map", route.Map.Source()))
		}
		routes[i] = route.Mail.append(routes[i])
		if route.AssumeIdempotent {
			routes[i] = append(routes[i], item("assume_idempotent", true))
		}
		routes[i] = duration(routes[i], "timeout", route.Timeout)
		routes[i] = route.Retry.append(routes[i])
	}
	return append(out, item("routes", routes))
}

func (r Retry) append(to yaml.MapSlice) yaml.MapSlice {
	retry := number(yaml.MapSlice{}, "attempts", int64(r.Attempts))
	retry = duration(retry, "base", r.Base)
	retry = duration(retry, "max", r.Max)
	retry = duration(retry, "deadline", r.Deadline)
	if len(retry) == 0 {
		return to
	}
	return append(to, item("retry", retry))
}

func references(refs []Reference) []yaml.MapSlice {
	out := make([]yaml.MapSlice, len(refs))
	for i, ref := range refs {
		scheme, rest, _ := strings.Cut(ref.From, ":")
		out[i] = yaml.MapSlice{item(scheme, rest)}
		if ref.secret.Name != ref.From {
			out[i] = append(out[i], item("name", ref.secret.Name))
		}
		if !ref.Until.IsZero() {
			out[i] = append(out[i], item("until", ref.Until.Format("2006-01-02T15:04:05Z07:00")))
		}
	}
	return out
}

func prefixTexts(prefixes []netip.Prefix) []string {
	out := make([]string, len(prefixes))
	for i, p := range prefixes {
		out[i] = p.String()
	}
	return out
}

func item(key string, value any) yaml.MapItem { return yaml.MapItem{Key: key, Value: value} }

func number(to yaml.MapSlice, key string, n int64) yaml.MapSlice {
	if n == 0 {
		return to
	}
	return append(to, item(key, n))
}

func duration(to yaml.MapSlice, key string, d time.Duration) yaml.MapSlice {
	if d == 0 {
		return to
	}
	return append(to, item(key, yamltree.FormatDuration(d)))
}
