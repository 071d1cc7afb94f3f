package providertest

import (
	"cmp"
	"io/fs"
	"strings"
	"testing"
)

// SecretOf returns a secret that verifies a vector of the provider, and the certificates that one of its settings
// needs. If no vector needs a secret, it is any text.
func SecretOf(tb testing.TB, data fs.FS, provider string) (secret, certificates string) {
	tb.Helper()
	vectors, err := Vectors(data, provider)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range vectors {
		v := &vectors[i]
		if !v.Valid || v.Spec != "" || v.Kind == "handshake" {
			continue
		}
		secret = cmp.Or(secret, v.Secret)
		if secret == "" && len(v.Several) > 0 {
			secret = v.Several[0].Value
		}
		certificates = cmp.Or(certificates, strings.Join(v.Settings["ca"], "\n"))
	}
	return cmp.Or(secret, "one that no vector has"), certificates
}
