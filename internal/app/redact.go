package app

import (
	"bytes"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/jsonspan"
)

// secretWords make a member's name one that no plan shows the value of, wherever
// in the name they stand.
var secretWords = []string{
	"password", "passwd", "passphrase", "secret", "token", "apikey", "privatekey", "accesskey", "authorization", "credential",
	"cookie", "signature", "cardnumber",
}

// secretNames do so alone.
var secretNames = []string{"cvc", "cvv", "pan", "pin", "otp", "iban", "ssn"}

// redaction says what of a body is not shown: members whose names say that they
// are secret, and those that the source names.
type redaction struct {
	names []string
	paths [][]string
}

func newRedaction(configured []string) redaction {
	var r redaction
	for _, path := range configured {
		if steps := strings.Split(path, "."); len(steps) > 1 {
			r.paths = append(r.paths, steps)
		} else {
			r.names = append(r.names, path)
		}
	}
	return r
}

// hides reports whether what is at a path is not to be shown; what is below it is
// not either.
func (r redaction) hides(path string) bool {
	for step := range strings.SplitSeq(path, ".") {
		if secretName(step) || slices.Contains(r.names, step) {
			return true
		}
	}
	if len(r.paths) == 0 {
		return false
	}
	steps := strings.Split(path, ".")
	return slices.ContainsFunc(r.paths, func(named []string) bool {
		if len(named) > len(steps) {
			return false
		}
		for i, step := range named {
			if step != "*" && step != steps[i] {
				return false
			}
		}
		return true
	})
}

// secretName reports whether a member's or header's name says that it is secret,
// however it is written: api_key, apiKey and X-Api-Key are one. It is asked of every
// member of every body that differs.
func secretName(name string) bool {
	var short [64]byte
	plain := short[:0]
	for _, c := range []byte(name) {
		switch {
		case c >= 'A' && c <= 'Z':
			plain = append(plain, c+'a'-'A')
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			plain = append(plain, c)
		}
	}
	if len(plain) < 3 {
		return false // shorter than any of them
	}
	return slices.ContainsFunc(secretNames, func(n string) bool { return n == string(plain) }) ||
		slices.ContainsFunc(secretWords, func(word string) bool { return bytes.Contains(plain, []byte(word)) })
}

// shown masks in a recorded payload what plans do not show either.
func shown(s *config.Source) func(canonical []byte) ([]byte, bool) {
	hides := newRedaction(s.Redact).hides
	return func(canonical []byte) ([]byte, bool) { return jsonspan.Mask(canonical, hides) }
}

// Masks says which members of a payload of a source are not shown until somebody reveals them: those whose names say that
// they are secret, those that the console redacts, and those that the source does. settings may be nil.
func Masks(settings *config.Config, source string) func(path string) bool {
	var redact []string
	if settings != nil {
		redact = append(redact, settings.Console.Redact...)
		if at := slices.IndexFunc(settings.Sources, func(s *config.Source) bool { return s.Name == source }); at >= 0 {
			redact = append(redact, settings.Sources[at].Redact...)
		}
	}
	return newRedaction(redact).hides
}
