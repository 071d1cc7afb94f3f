package config

import (
	"cmp"
	"net/netip"
	"strings"

	"github.com/oncegate/oncegate/internal/fold"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
)

// environmentOverrides applies environment variables, which take precedence over the file.
func (r *reader) environmentOverrides(cfg *Config, o Options) {
	override(r, "DATABASE_URL", &cfg.Database.URL, verbatim)
	override(r, "ONCEGATE_DATABASE_URL", &cfg.Database.URL, verbatim)
	override(r, "ONCEGATE_LIST_DATABASE_URL", &cfg.Database.ListURL, connectionString)
	override(r, "ONCEGATE_SCHEMA", &cfg.Database.Schema, schema)
	if o.DatabaseOnly {
		return
	}
	override(r, "ONCEGATE_DURABILITY", &cfg.Database.Durability, durability)
	override(r, "ONCEGATE_GATE_CONNECTIONS", &cfg.Database.GateConnections, connections(4))
	override(r, "ONCEGATE_WORK_CONNECTIONS", &cfg.Database.WorkConnections, connections(2))
	override(r, "ONCEGATE_QUEUE_CONNECTIONS", &cfg.Database.QueueConnections, connections(8))
	override(r, "PORT", &cfg.Listen.Public, func(s string) (string, error) { return address(":" + s) })
	override(r, "ONCEGATE_PUBLIC", &cfg.Listen.Public, address)
	override(r, "ONCEGATE_ADMIN", &cfg.Listen.Admin, address)
	override(r, "ONCEGATE_TRUSTED_PROXIES", &cfg.Listen.TrustedProxies, prefixes)
	override(r, "ONCEGATE_CONNECTIONS", &cfg.Listen.Connections, positiveInteger)
	override(r, "ONCEGATE_CONNECTIONS_PER_PEER", &cfg.Listen.ConnectionsPerPeer, positiveInteger)
	override(r, "ONCEGATE_HEADER_TIMEOUT", &cfg.Listen.HeaderTimeout, yamltree.PositiveDuration)
	override(r, "ONCEGATE_IDLE_TIMEOUT", &cfg.Listen.IdleTimeout, yamltree.PositiveDuration)
	override(r, "ONCEGATE_CONSOLE_URL", &cfg.Console.URL, consoleURL)
	override(r, "LOG_LEVEL", &cfg.Log.Level, level)
	override(r, "ONCEGATE_LOG_FORMAT", &cfg.Log.Format, yamltree.OneOf("json", "text"))
	override(r, "ONCEGATE_LOG_EVENTS", &cfg.Log.Events, fold.Parse)
	override(r, "ONCEGATE_GATE_QUEUE_EVENTS", &cfg.Gate.QueueEvents, positiveInteger)
	override(r, "ONCEGATE_GATE_QUEUE_BYTES", &cfg.Gate.QueueBytes, yamltree.PositiveSize)
	override(r, "ONCEGATE_GATE_DEADLINE", &cfg.Gate.Deadline, yamltree.PositiveDuration)
	r.bodiesEnvironment(cfg)
	override(r, "ONCEGATE_WORKERS", &cfg.Work.Workers, positiveInteger)
	override(r, "ONCEGATE_LEASE", &cfg.Work.Lease, yamltree.PositiveDuration)
	override(r, "ONCEGATE_SWEEP_EVERY", &cfg.Work.SweepEvery, yamltree.PositiveDuration)
	override(r, "ONCEGATE_DRAIN", &cfg.Drain, yamltree.PositiveDuration)
	r.quickstart(cfg)
}

func override[T any](r *reader, name string, into *T, parse func(string) (T, error)) {
	text, ok, err := r.env.lookup(name)
	if err != nil {
		r.badVariables[overridden(name)] = true
		r.report.Add("%v", err)
		return
	}
	if !ok {
		return
	}
	value, err := parse(text)
	if err != nil {
		// A database URL contains a password, so the error does not quote the value.
		r.badVariables[overridden(name)] = true
		r.report.Add("%s: %v", name, err)
		return
	}
	*into = value
}

// overridden returns the configuration key that a variable overrides.
func overridden(variable string) string {
	key, _, _ := strings.Cut(variables[variable], ",")
	return key
}

func verbatim(s string) (string, error) { return s, nil }

func positiveInteger(s string) (int, error) { return yamltree.ParseInteger(s, 1) }

func prefixes(s string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for part := range strings.SplitSeq(s, ",") {
		p, err := prefix(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// quickstart creates one source, and one target if a URL is given, from environment variables
// alone.
func (r *reader) quickstart(cfg *Config) {
	var provider, name, forward string
	override(r, "ONCEGATE_SOURCE_PROVIDER", &provider, verbatim)
	override(r, "ONCEGATE_SOURCE_NAME", &name, checkedName)
	override(r, "ONCEGATE_FORWARD_URL", &forward, forwardURL)
	if provider == "" {
		for _, alone := range []string{
			"ONCEGATE_SOURCE_NAME", "ONCEGATE_SOURCE_SECRET", "ONCEGATE_SOURCE_PREVIOUS_SECRET",
			"ONCEGATE_FORWARD_URL", "ONCEGATE_FORWARD_SIGN_SECRET", "ONCEGATE_FORWARD_IDEMPOTENT", "ONCEGATE_FORWARD_ALLOW",
		} {
			if r.env.has(alone) {
				r.report.Add("%s is set, but ONCEGATE_SOURCE_PROVIDER is not: set it to a provider, such as stripe", alone)
			}
		}
		return
	}
	p := cfg.Providers[provider]
	if p == nil && !r.unusable["providers."+provider] {
		r.report.Add("ONCEGATE_SOURCE_PROVIDER: unknown provider %q; %s", visible(provider), known(cfg.Providers, provider))
	}
	source := &Source{Name: cmp.Or(name, provider), Provider: p, Class: "default"}
	source.node = r.report.Absent("sources." + source.Name)
	for _, s := range cfg.Sources {
		if s.Name == source.Name {
			r.report.Add("ONCEGATE_SOURCE_PROVIDER: source %q is also in %s; set ONCEGATE_SOURCE_NAME", s.Name, r.report.File)
		}
	}
	source.Secrets = r.secretVariables(p != nil && (p.IsOperation() || needsSecret(p)), "ONCEGATE_SOURCE_SECRET", "ONCEGATE_SOURCE_PREVIOUS_SECRET")
	if p != nil && len(source.Secrets) > 0 {
		if err := p.CheckSecrets(source.Keys()); err != nil {
			for _, line := range errorLines(err) {
				r.report.Add("ONCEGATE_SOURCE_SECRET: %s", line)
			}
		}
	}
	if forward == "" {
		for _, alone := range []string{"ONCEGATE_FORWARD_SIGN_SECRET", "ONCEGATE_FORWARD_IDEMPOTENT", "ONCEGATE_FORWARD_ALLOW"} {
			if r.env.has(alone) && !r.env.has("ONCEGATE_FORWARD_URL") {
				r.report.Add("%s is set, but ONCEGATE_FORWARD_URL is not", alone)
			}
		}
	} else {
		target := &Target{Name: "forward", node: r.report.Absent("targets.forward"), Kind: KindForward, URL: forward, KeyHeader: "Idempotency-Key"}
		if r.env.has("ONCEGATE_FORWARD_IDEMPOTENT") {
			override(r, "ONCEGATE_FORWARD_IDEMPOTENT", &target.Idempotent, yamltree.ParseBool)
		} else {
			for _, line := range idempotentMissing("ONCEGATE_FORWARD_IDEMPOTENT=true", "ONCEGATE_FORWARD_IDEMPOTENT=false") {
				r.report.Add("ONCEGATE_FORWARD_URL: %s", line)
			}
		}
		r.compileValues(valueTexts(forward), true, &target.Values, func(format string, args ...any) {
			r.report.Add("ONCEGATE_FORWARD_URL: "+format, args...)
		})
		override(r, "ONCEGATE_FORWARD_ALLOW", &target.Allow, prefixes)
		target.Sign = r.secretVariables(false, "ONCEGATE_FORWARD_SIGN_SECRET")
		for _, t := range cfg.Targets {
			if t.Name == target.Name {
				r.report.Add("ONCEGATE_FORWARD_URL: target %q is also in %s", t.Name, r.report.File)
			}
		}
		cfg.Targets = append(cfg.Targets, target)
		source.Routes = []*Route{{Name: "forward", node: source.node.Below("routes.forward"), Types: []string{"*"}, Target: target, Retry: target.Retry, Timeout: target.Timeout}}
	}
	cfg.Sources = append(cfg.Sources, source)
}

// secretVariables reads secrets whose values are in the environment variables themselves. If need
// is true, the first is required.
func (r *reader) secretVariables(need bool, names ...string) []Reference {
	var out []Reference
	for i, name := range names {
		value, ok, err := r.env.lookup(name)
		switch {
		case err != nil:
			r.report.Add("%v", err)
		case ok:
			out = append(out, Reference{From: "env:" + name, secret: providers.Secret{Name: "env:" + name, Value: []byte(value)}})
		case i == 0 && need:
			r.report.Add("%s is not set (nor %s_FILE): the provider needs a secret", name, name)
		}
	}
	return out
}
