package config

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
)

// Reference is a secret together with its origin. Only the origin can be printed.
type Reference struct {
	// From is "env:NAME" or "file:PATH".
	From string
	// Until is when the secret stops being accepted. Zero means never.
	Until time.Time

	secret providers.Secret
}

// String returns the reference, never the value.
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

// moveToCredentials returns a hint on how to give one credential of a source of operations several
// secrets. It returns "" for other sources.
func (r *reader) moveToCredentials(source *yamltree.Node) string {
	provider := source.Name()
	if named := source.Member("provider"); named.IsScalar() {
		provider = named.Value()
	}
	if p := r.Provider(provider); p == nil || !p.IsOperation() {
		return ""
	}
	return "; a credential with several secrets is written as credentials: { %s: { secrets: [...] } }, newest first, and keeps its keys"
}

// secrets reads a list of references. several is a hint for several secrets of the same name, with
// %s for the name; it may be empty.
func (r *reader) secrets(n *yamltree.Node, several string) []Reference {
	var out []Reference
	names := map[string]bool{}
	for _, item := range n.Items() {
		ref, ok := r.secret(item)
		if !ok {
			continue
		}
		if names[ref.secret.Name] {
			text := fmt.Sprintf("duplicate name %q", ref.secret.Name)
			if several != "" {
				text += fmt.Sprintf(several, ref.secret.Name)
			}
			item.Fail("%s", text)
			continue
		}
		names[ref.secret.Name] = true
		out = append(out, ref)
	}
	return out
}

func (r *reader) secret(n *yamltree.Node) (Reference, bool) {
	var ref Reference
	var name string
	if r.storing {
		ref, value, name, ok := r.storedSecret(n)
		if ok {
			r.env.led.note("secret "+ref.From+" of "+n.Path(), value)
			ref.secret = providers.Secret{Name: cmp.Or(name, ref.From), Value: []byte(value), NotAfter: ref.Until}
		}
		return ref, ok
	}
	if n.IsMapping() {
		r.fields(n, ref.keys(&name))
		if ref.From == "" && n.Sound() {
			n.Fail("needs env: NAME or file: PATH")
		}
	} else if text, ok := n.Text(); ok && isReference(text) {
		ref.From = text
	} else if ok {
		// The text is probably the secret itself, so the error does not quote it.
		n.Fail("must be a reference (env:NAME or {file: PATH}), never the secret itself")
	}
	if !n.Sound() {
		return ref, false
	}
	value, err := r.env.resolve(ref.From)
	if err != nil {
		n.Fail("%v", err)
		return ref, false
	}
	ref.secret = providers.Secret{Name: cmp.Or(name, ref.From), Value: []byte(value), NotAfter: ref.Until}
	return ref, true
}

// keys declares the keys of a secret that is written as a mapping.
func (r *Reference) keys(name *string) []Key {
	from := func(scheme string) func(*reader, *yamltree.Node) {
		return func(_ *reader, n *yamltree.Node) {
			text, ok := n.Text()
			switch {
			case ok && r.From != "":
				n.FailKey("env and file exclude each other")
			case ok:
				r.From = scheme + text
			}
		}
	}
	return append([]Key{
		value("env", new(string), words(verbatim), "none", "The environment variable with the secret. Either `env` or `file` is required.").by(from("env:")),
		value("file", new(string), words(verbatim), "none", "The file with the secret.").by(from("file:")),
	}, r.commonKeys(name)...)
}

// storedKeys declares the keys of a secret of a source in the database.
func (r *Reference) storedKeys(content, name *string) []Key {
	return append([]Key{value("value", content, words(verbatim), "none", "The secret itself. Only a source of the database has it.")}, r.commonKeys(name)...)
}

// commonKeys declares the keys that all secrets have.
func (r *Reference) commonKeys(name *string) []Key {
	instant := func(t time.Time) any { return t.Format(time.RFC3339) }
	return []Key{
		value("until", &r.Until, form[time.Time]{until, instant, scalar}, "none", "The date (`2026-12-31`) after which the secret is no longer accepted, for a rotation."),
		value("name", name, words(checkedName), "the reference", "The name under which the secret appears in metrics and in the audit. In `secrets` of a source of operations it is the name of the credential; secrets under `credentials` have none."),
	}
}

// printed returns the reference in the form of the file.
func (r Reference) printed() any {
	scheme, rest, _ := strings.Cut(r.From, ":")
	name := r.secret.Name
	if name == r.From {
		name = ""
	}
	return append(yaml.MapSlice{{Key: scheme, Value: rest}}, printed(r.keys(&name))...)
}

// until parses a day, which includes its end in UTC, or a point in time.
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

// ReadSecretFile reads a file and removes one trailing newline, which editors add.
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
