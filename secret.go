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
	// A pointer, since fmt follows no pointer inside a value whose methods it cannot call.
	*secret
}

type secret struct {
	from  string // env:NAME or file:PATH; empty for a value
	value string
	until time.Time
}

// Env is the secret in an environment variable or, if only NAME_FILE is set, in the file
// that this one names. [Open] reads it.
func Env(name string) Secret { return Secret{&secret{from: "env:" + name}} }

// File is the secret in a file, without the newline at its end. [Open] reads it.
func File(path string) Secret { return Secret{&secret{from: "file:" + path}} }

// Value is a secret that the program has already, from a vault for example.
func Value(value string) Secret { return Secret{&secret{value: value}} }

// Until is the secret that is accepted until a time, as during a rotation. The zero time is
// for ever.
func (s Secret) Until(t time.Time) Secret {
	var until secret
	if s.secret != nil {
		until = *s.secret
	}
	until.until = t
	return Secret{&until}
}

// String says where the secret stands, and never what it is.
func (s Secret) String() string {
	switch {
	case s.secret == nil:
		return "<none>"
	case s.from == "":
		return "<secret>"
	}
	return s.from
}

// Format implements [fmt.Formatter], for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue implements [slog.LogValuer].
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements [encoding.TextMarshaler], and so what JSON and YAML show.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
