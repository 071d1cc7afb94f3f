package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/jobs/effect/forward"
	"github.com/oncegate/oncegate/providers"
)

// overrides applies environment variables, which take precedence over the file, to the keys below
// prefix.
func (r *reader) overrides(prefix string, keys []Key, o Options) {
	for _, k := range keys {
		path := prefix + k.Name
		if k.keys != nil {
			r.overrides(path+".", k.keys(), o)
		}
		if k.parse == nil || o.DatabaseOnly && !slices.Contains([]string{"database.url", "database.list_url", "database.schema"}, path) {
			continue
		}
		for _, v := range slices.Backward(k.variables) { // the first takes precedence
			r.override(v.name, path, func(text string) error {
				if written, ok := strings.CutPrefix(v.note, "as "); ok {
					text = strings.Replace(written, v.name, text, 1)
				}
				return k.parse(text)
			})
		}
	}
}

// override applies a variable, if it is set, to the key with a path.
func (r *reader) override(name, path string, parse func(string) error) {
	text, ok, err := r.env.lookup(name)
	if err == nil && ok {
		if err = parse(text); err != nil {
			// A database URL contains a password, so the error does not quote the value.
			err = fmt.Errorf("%s: %w", name, err)
		}
	}
	if err != nil {
		r.badVariables[path] = true
		r.report.Add("%v", err)
	}
}

func verbatim(s string) (string, error) { return s, nil }

// quickstart creates one source, and one target if a URL is given, from environment variables
// alone.
func (r *reader) quickstart(cfg *Config) {
	var provider, name, url string
	r.override("ONCEGATE_SOURCE_PROVIDER", "", setter(&provider, verbatim))
	r.override("ONCEGATE_SOURCE_NAME", "", setter(&name, checkedName))
	r.override("ONCEGATE_FORWARD_URL", "", setter(&url, forwardURL))
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
	p := r.Provider(provider)
	if p == nil && !r.unusable["providers."+provider] {
		r.report.Add("ONCEGATE_SOURCE_PROVIDER: unknown provider %q; %s", visible(provider), r.known(provider))
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
	if url == "" {
		for _, alone := range []string{"ONCEGATE_FORWARD_SIGN_SECRET", "ONCEGATE_FORWARD_IDEMPOTENT", "ONCEGATE_FORWARD_ALLOW"} {
			if r.env.has(alone) && !r.env.has("ONCEGATE_FORWARD_URL") {
				r.report.Add("%s is set, but ONCEGATE_FORWARD_URL is not", alone)
			}
		}
	} else {
		target := &Target{Name: "forward", node: r.report.Absent("targets.forward"), Kind: KindForward, URL: url, KeyHeader: forward.DefaultKeyHeader}
		if r.env.has("ONCEGATE_FORWARD_IDEMPOTENT") {
			r.override("ONCEGATE_FORWARD_IDEMPOTENT", "", setter(&target.Idempotent, boolean.parse))
		} else {
			for _, line := range idempotentMissing("ONCEGATE_FORWARD_IDEMPOTENT=true", "ONCEGATE_FORWARD_IDEMPOTENT=false") {
				r.report.Add("ONCEGATE_FORWARD_URL: %s", line)
			}
		}
		r.compileValues(valueTexts(url), true, &target.Values, func(format string, args ...any) {
			r.report.Add("ONCEGATE_FORWARD_URL: "+format, args...)
		})
		r.override("ONCEGATE_FORWARD_ALLOW", "", list("allow", &target.Allow, network, "", "").parse)
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
