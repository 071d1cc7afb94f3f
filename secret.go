package oncegate

import (
	"fmt"
	"io"
	"log/slog"
	"time"
)

// Secret is a secret, or where one stands. It cannot be printed: fmt, slog, JSON and YAML
// show where it stands, and "<secret>" for a value. The zero Secret is none.
type Secret struct {
	// A function, since fmt shows what is in a field whose methods it cannot call, but not
	// what a function knows.
	parts func() secretParts
}

// secretParts are what a Secret is made of.
type secretParts struct {
	from  string // env:NAME or file:PATH; empty for a value
	value string
	until time.Time
}

func newSecret(p secretParts) Secret { return Secret{func() secretParts { return p }} }

// none reports whether it is the zero Secret.
func (s Secret) none() bool { return s.parts == nil }

// Env is the secret in an environment variable or, if only NAME_FILE is set, in the file
// that this one names. [Open] reads it.
func Env(name string) Secret { return newSecret(secretParts{from: "env:" + name}) }

// File is the secret in a file, without the newline at its end. [Open] reads it.
func File(path string) Secret { return newSecret(secretParts{from: "file:" + path}) }

// Value is a secret that the program has already, from a vault for example.
func Value(value string) Secret { return newSecret(secretParts{value: value}) }

// Until is the secret that is accepted until a time, as during a rotation. The zero time is
// for ever.
func (s Secret) Until(t time.Time) Secret {
	if s.none() {
		return s
	}
	p := s.parts()
	p.until = t
	return newSecret(p)
}

// String says where the secret stands, and never what it is.
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

// MarshalText implements [encoding.TextMarshaler], and so what JSON and YAML show.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
