package app

import (
	"bytes"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/jsonspan"
)

// secretWords are words that make a member secret if its name contains one of them. No plan shows the value of a
// secret member.
var secretWords = []string{
	"password", "passwd", "passphrase", "secret", "token", "apikey", "privatekey", "accesskey", "authorization", "credential",
	"cookie", "signature", "cardnumber",
}

// secretNames make a member secret if they are its whole name.
var secretNames = []string{"cvc", "cvv", "pan", "pin", "otp", "iban", "ssn"}

// redaction says which parts of a body are not shown: members whose names say that they are secret, and those that the
// configuration names.
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

// hides reports whether the value at a path must not be shown. Everything below a hidden path is hidden too.
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

// secretName reports whether the name of a member or a header says that it is secret, in any spelling: api_key, apiKey
// and X-Api-Key are the same. It is called for every member of every body that differs.
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
		return false // shorter than any secret name
	}
	return slices.ContainsFunc(secretNames, func(n string) bool { return n == string(plain) }) ||
		slices.ContainsFunc(secretWords, func(word string) bool { return bytes.Contains(plain, []byte(word)) })
}

// shown returns a function that masks in a recorded payload the members that plans do not show.
func shown(s *config.Source) func(canonical []byte) ([]byte, bool) {
	hides := newRedaction(s.Redact).hides
	return func(canonical []byte) ([]byte, bool) { return jsonspan.Mask(canonical, hides) }
}

// Masks returns a function that reports which members of a source's payload are masked until an operator reveals them:
// those whose names say that they are secret, and those that the console or the source redacts. settings may be nil.
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
