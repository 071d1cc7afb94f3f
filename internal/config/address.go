package config

import (
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// forwardURL parses a target's URL, which may contain expressions in braces.
func forwardURL(s string) (string, error) {
	literals, _, err := forward.SplitAddress(s)
	if err != nil {
		return "", errors.New(strings.TrimPrefix(err.Error(), "url: "))
	}
	_, err = httpURL(strings.Join(literals, "x"))
	return s, err
}

// ShownURL returns the target's address as people may see it. If a reference such as env:NAME gave it, or a variable of the
// environment alone, that is only its origin, because its path may be the secret. Otherwise the credentials are hidden.
func (t *Target) ShownURL() string {
	if t.Kind == KindDev {
		return RedactURLs(t.URL)
	}
	if t.Kind == KindPublish {
		return shownBroker(t.URL)
	}
	return shownAddress(t.node.Member("url"), t.URL)
}

// ShownTestURL returns the address of test events as people may see it.
func (t *Target) ShownTestURL() string { return shownAddress(t.node.Member("test_url"), t.TestURL) }

// shownAddress returns an address as people may see it. n is its value in the file, or nil if it is not there.
func shownAddress(n *yamltree.Node, address string) string {
	if address == "" {
		return ""
	}
	if n != nil {
		if text, _ := n.Text(); text != "" && !isReference(text) {
			return RedactURLs(address)
		}
	}
	literals, _, err := forward.SplitAddress(address)
	if err != nil {
		return ""
	}
	at, err := url.Parse(strings.Join(literals, "x"))
	if err != nil || at.Host == "" {
		return ""
	}
	shown := at.Scheme + "://" + at.Host
	if at.Path != "" && at.Path != "/" || at.RawQuery != "" {
		shown += "/..."
	}
	return shown
}

// hidePaths replaces the addresses of targets in a printed configuration by what people may see of them.
func (c *Config) hidePaths(tree yaml.MapSlice) {
	for _, t := range c.Targets {
		setText(tree, t.ShownURL(), "targets", t.Name, "url")
		if t.Probe != nil {
			setText(tree, shownAddress(t.node.Member("probe").Member("url"), t.Probe.URL), "targets", t.Name, "probe", "url")
		}
		if t.TestURL != "" {
			setText(tree, t.ShownTestURL(), "targets", t.Name, "test_url")
		}
		if t.DryRun != nil {
			setText(tree, shownAddress(t.node.Member("dry_run").Member("url"), t.DryRun.URL), "targets", t.Name, "dry_run", "url")
		}
	}
}

// setText replaces the text at a path of a tree, if there is one.
func setText(tree yaml.MapSlice, text string, path ...string) {
	for i := range tree {
		item := &tree[i]
		if len(path) == 0 || item.Key != path[0] {
			continue
		}
		if inner, ok := item.Value.(yaml.MapSlice); ok && len(path) > 1 {
			setText(inner, text, path[1:]...)
		} else if _, ok := item.Value.(string); ok && len(path) == 1 {
			item.Value = text
		}
	}
}

// valueTexts returns the expressions in the braces of an address. It returns none if the braces are
// invalid; the code that creates the target reports that error.
func valueTexts(address string) []string {
	_, texts, _ := forward.SplitAddress(address)
	return texts
}

// urlValues compiles the expressions in a target's address.
func (r *reader) urlValues(t *Target) bool {
	n := t.node.Member("url")
	text, _ := n.Text()
	return r.compileValues(valueTexts(t.URL), isReference(text), &t.Values, n.Fail)
}

// compileValues compiles the expressions of an address. If secret is true, the address comes from a
// reference and may contain a secret, so errors quote nothing of it.
func (r *reader) compileValues(texts []string, secret bool, into *map[string]*expression.Program, fail func(string, ...any)) (sound bool) {
	const hint = "write a literal brace as %%7B or %%7D"
	sound = true
	for i, text := range texts {
		program, err := expression.CompileWithKey(text, expression.Value)
		if err == nil && text != "key" {
			if *into == nil {
				*into = map[string]*expression.Program{}
			}
			(*into)[text] = program
			continue
		}
		sound = false
		switch {
		case err == nil:
			fail("{key} has slashes, which a path must not get; {key_uuid} is made of it and has none")
		case secret:
			fail("value %d in braces is no expression; "+hint, i+1)
		default:
			fail("{%s} is no expression: %v; "+hint, text, err)
		}
	}
	return sound
}

// addressValues returns a placeholder for each expression of an address. The sender supplies the
// real values.
func addressValues(programs map[string]*expression.Program) map[string]forward.Value {
	out := make(map[string]forward.Value, len(programs))
	for text := range programs {
		out[text] = func(*effect.Call) (string, error) { return "", errUnbound }
	}
	return out
}

var errUnbound = errors.New("no event is at hand")

// redactTemplate hides the credentials in an address with expressions and keeps the expressions,
// which are not secret. ok is false if the text is not such an address.
func redactTemplate(address string) (shown string, ok bool) {
	literals, texts, err := forward.SplitAddress(address)
	if err != nil || len(texts) == 0 {
		return "", false
	}
	var plain strings.Builder
	restored := make([]string, 0, 2*len(texts))
	for i, literal := range literals {
		plain.WriteString(literal)
		if i < len(texts) {
			mark := "{" + strings.Repeat("v", i+1) + "}" // RedactURL recognizes this as a placeholder
			plain.WriteString(mark)
			restored = append(restored, mark, "{"+texts[i]+"}")
		}
	}
	if !wholeURL.MatchString(plain.String()) {
		return "", false
	}
	return strings.NewReplacer(restored...).Replace(RedactURL(plain.String())), true
}

// sameAddress reports whether two listeners would open the same port.
func sameAddress(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	everywhere := func(host string) bool { return host == "" || host == "0.0.0.0" || host == "::" }
	return hostA == hostB || everywhere(hostA) || everywhere(hostB)
}
