package config

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/oncegate/oncegate/providers"
)

// Reference is a secret with where it came from. Only the reference can be
// printed.
type Reference struct {
	// From is "env:NAME" or "file:PATH".
	From string
	// Until is when the secret stops being accepted; zero is never.
	Until time.Time

	secret providers.Secret
}

// String gives the reference, never the value.
func (r Reference) String() string {
	if r.Until.IsZero() {
		return r.From
	}
	return r.From + " until " + r.Until.Format(time.RFC3339)
}

func values(refs []Reference) []providers.Secret {
	out := make([]providers.Secret, len(refs))
	for i, ref := range refs {
		out[i] = ref.secret
	}
	return out
}

// secrets reads a list of references; one reference alone may stand without the list.
func (r *reader) secrets(n ast.Node, where string) []Reference {
	nodes := []ast.Node{n}
	if _, one := n.(*ast.SequenceNode); one {
		nodes = r.list(n, where)
	}
	var out []Reference
	names := map[string]bool{}
	for i, node := range nodes {
		ref, ok := r.secret(node, fmt.Sprintf("%s[%d]", where, i))
		if !ok {
			continue
		}
		if names[ref.secret.Name] {
			r.at(node, "%s[%d]: duplicate name %q", where, i, ref.secret.Name)
			continue
		}
		names[ref.secret.Name] = true
		out = append(out, ref)
	}
	return out
}

func (r *reader) secret(n ast.Node, where string) (Reference, bool) {
	var ref Reference
	var name string
	before := len(r.problems)
	if _, mapping := n.(ast.MapNode); mapping {
		set := func(scheme string) func(field) {
			return func(f field) {
				text, ok := r.text(f.value, where+"."+f.name)
				switch {
				case ok && ref.From != "":
					r.at(f.key, "%s: env and file exclude each other", where)
				case ok:
					ref.From = scheme + text
				}
			}
		}
		r.object(n, where, map[string]func(field){
			"env":  set("env:"),
			"file": set("file:"),
			"name": func(f field) {
				parsed(r, f.value, where+".name", &name, checkedName)
			},
			"until": func(f field) { parsed(r, f.value, where+".until", &ref.Until, until) },
		})
		if ref.From == "" && len(r.problems) == before {
			r.at(n, "%s: needs env: NAME or file: PATH", where)
		}
	} else {
		text, ok := r.text(n, where)
		if !ok {
			return ref, false
		}
		if !strings.HasPrefix(text, "env:") && !strings.HasPrefix(text, "file:") {
			// The text is likely the secret itself: it is not quoted.
			r.at(n, "%s: must be a reference (env:NAME or {file: PATH}), never the secret itself", where)
			return ref, false
		}
		ref.From = text
	}
	if len(r.problems) > before {
		return ref, false
	}
	value, err := r.env.resolve(ref.From)
	if err != nil {
		r.at(n, "%s: %v", where, err)
		return ref, false
	}
	if name == "" {
		name = ref.From
	}
	ref.secret = providers.Secret{Name: name, Value: []byte(value), NotAfter: ref.Until}
	return ref, true
}

// until reads a day, which is accepted to its end in UTC, or an instant.
func until(s string) (time.Time, error) {
	if day, err := time.Parse(time.DateOnly, s); err == nil {
		return day.AddDate(0, 0, 1), nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("neither a day (2026-12-31) nor an instant (2026-12-31T12:00:00Z)")
	}
	return at.UTC(), nil
}

// ReadSecretFile reads a file and drops the newline that editors leave.
func ReadSecretFile(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading secret file: %w", err)
	}
	content = bytes.TrimSuffix(bytes.TrimSuffix(content, []byte("\n")), []byte("\r"))
	if len(content) == 0 {
		return "", fmt.Errorf("secret file %s is empty", path)
	}
	return string(content), nil
}
