package reference

import (
	"slices"
	"strings"

	"github.com/oncegate/oncegate/providers"
)

func (b *page) setUp(name string, p *providers.Provider) {
	s := p.Spec()
	b.heading("Setting it up")
	if p.IsMessage() {
		b.line("Declare a source that consumes from a broker (see [Events from a broker](../../docs/guides/from-a-broker.md)):")
	} else {
		b.line("Give the sender the address `https://<your host>/in/" + name + "` (if your source has another name, use that name in the address), and declare the source:")
	}
	b.line("")
	b.example(name, p, "")
	for _, setup := range setups(s) {
		b.line("\nOr, " + setup + ":\n")
		b.example(name, p, setup)
	}
	b.line("")
	for _, note := range s.Notes {
		b.item("%s", note)
	}
	for _, key := range keys(s) {
		b.item("The secret %s.", key)
	}
	for i := range s.Handshakes {
		if of := s.Handshakes[i].SecretName; of != "" {
			b.item("A secret named `%s` is for the handshake alone.", of)
		}
	}
	for i := range s.Settings {
		t := &s.Settings[i]
		must := ""
		if t.Required {
			must = ", required"
		}
		if len(t.Default) > 0 {
			must = ", `" + strings.Join(t.Default, "`, `") + "` unless given"
		}
		if t.Secret {
			must += ", a reference (`env:NAME` or `file:PATH`)"
		}
		b.item("Setting `%s`%s: %s.", t.Name, must, t.About)
	}
}

// setups returns the distinct setups that optional settings belong to, in their order.
func setups(s *providers.Spec) []string {
	var out []string
	for i := range s.Settings {
		if setup := s.Settings[i].Setup; setup != "" && !slices.Contains(out, setup) {
			out = append(out, setup)
		}
	}
	return out
}

// example writes an example source with the required settings and the settings of one setup, and
// with secrets if the provider then needs any.
func (b *page) example(name string, p *providers.Provider, setup string) {
	s := p.Spec()
	prefix := strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	b.line("```yaml")
	b.line("sources:")
	b.line("  " + name + ":")
	b.line("    provider: " + name)
	if p.IsMessage() {
		b.line("    from: { url: \"nats://broker.internal\", stream: ORDERS }")
	}
	given, lines := map[string][]string{}, []string(nil)
	for i := range s.Settings {
		t := &s.Settings[i]
		if !t.Required && (setup == "" || t.Setup != setup) {
			continue
		}
		values := t.Example
		if t.Secret {
			values = []string{"env:" + prefix + "_" + strings.ToUpper(t.Name)}
		}
		given[t.Name] = values
		quoted := make([]string, len(values))
		for j, value := range values {
			quoted[j] = `"` + value + `"`
		}
		text := strings.Join(quoted, ", ")
		if len(values) != 1 {
			text = "[" + text + "]"
		}
		lines = append(lines, "      "+t.Name+": "+text)
	}
	if secrets := secrets(prefix, p, given); secrets != "" {
		b.line("    secrets: [" + secrets + "]")
	}
	if len(lines) > 0 {
		b.line("    settings:")
		b.line(strings.Join(lines, "\n"))
	}
	b.line("```")
}

// secrets returns the secret references of an example, or an empty string if the provider needs no
// secret with these settings.
func secrets(prefix string, p *providers.Provider, given map[string][]string) string {
	// Bind fails if a setting is a file, which is not read here. Whether secrets are needed does
	// not depend on such a setting.
	if bound, err := p.Bind(providers.Binding{Settings: given}); err == nil {
		p = bound
	}
	if p.CheckSecrets(nil) == nil {
		return ""
	}
	secret := "env:" + prefix + "_SECRET"
	if p.IsOperation() {
		secret = "{ env: " + prefix + "_SECRET, name: caller }"
	}
	s := p.Spec()
	for i := range s.Handshakes {
		if of := s.Handshakes[i].SecretName; of != "" {
			secret += ", { env: " + prefix + "_" + strings.ToUpper(of) + ", name: " + of + " }"
		}
	}
	return secret
}
