package oncegate

import (
	"fmt"
	"io"
	"log/slog"
	"time"
)

// Secret is a secret value, or a reference to one. It cannot be printed: fmt, slog, JSON and YAML
// show the reference, and "<secret>" for a value. The zero Secret is none.
type Secret struct {
	// parts is a function because fmt shows the content of a field whose methods it cannot call,
	// but not the variables of a function.
	parts func() secretParts
}

// secretParts is the content of a Secret.
type secretParts struct {
	from  string // env:NAME or file:PATH; empty for a value
	value string
	until time.Time
}

func newSecret(p secretParts) Secret { return Secret{func() secretParts { return p }} }

// none reports whether s is the zero Secret.
func (s Secret) none() bool { return s.parts == nil }

// Env returns the secret in an environment variable or, if only NAME_FILE is set, in the file that
// NAME_FILE names. [Open] reads it.
func Env(name string) Secret { return newSecret(secretParts{from: "env:" + name}) }

// File returns the secret in a file, without a trailing newline. [Open] reads it.
func File(path string) Secret { return newSecret(secretParts{from: "file:" + path}) }

// Value returns a secret whose value the program already has, for example from a vault.
func Value(value string) Secret { return newSecret(secretParts{value: value}) }

// Until returns a copy of the secret that is accepted until t, as during a rotation. The zero time
// means without end.
func (s Secret) Until(t time.Time) Secret {
	if s.none() {
		return s
	}
	p := s.parts()
	p.until = t
	return newSecret(p)
}

// String returns the reference, or "<secret>". It never returns the value.
func (s Secret) String() string {
	if s.none() {
		return "<none>"
	}
	if from := s.parts().from; from != "" {
		return from
	}
	return "<secret>"
}

// Format implements [fmt.Formatter], for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue implements [slog.LogValuer].
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements [encoding.TextMarshaler], which determines the JSON and YAML form.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
