package app

import (
	"slices"
	"strings"
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
	steps := strings.Split(path, ".")
	for _, step := range steps {
		if secretName(step) || slices.Contains(r.names, step) {
			return true
		}
	}
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
// however it is written: api_key, apiKey and X-Api-Key are one.
func secretName(name string) bool {
	plain := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return -1
	}, strings.ToLower(name))
	return slices.Contains(secretNames, plain) || slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(plain, word) })
}
