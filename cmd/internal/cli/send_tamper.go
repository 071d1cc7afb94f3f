package cli

import (
	"bytes"
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/oncegate/oncegate/internal/delivery"
	"github.com/oncegate/oncegate/providers"
)

// signFor signs the draft as the provider of the addressee would, in one of its modes, and then changes the part that
// tamper names.
func signFor(to *addressee, d *delivery.Draft, mode, tamper string) (*providers.Request, error) {
	verify, signed := to.provider.Spec().Verify, *d
	switch tamper {
	case "", "body", "signature":
	case "timestamp":
		if from := verify.Timestamp.From; from == "" || from == "none" || verify.Timestamp.Unsigned {
			return nil, usagef("%s signs no time: --tamper timestamp has nothing to spoil", to.provider.Name())
		}
		signed.At = d.At.Add(-time.Hour)
	default:
		return nil, usagef("--tamper %q is unknown; known are body, signature, timestamp", clean(tamper))
	}
	r, err := signed.Sign(to.provider, mode, cmp.Or(to.signedURL, to.url), to.secret)
	if err != nil {
		return nil, usagef("%s", oneLine(err.Error()))
	}
	r.URL = to.url
	switch tamper {
	case "body":
		// JSON allows white space here, so the payload keeps its meaning.
		r.Body = append(bytes.Clone(r.Body), '\n')
	case "signature":
		spoiled := false
		for name, values := range r.Header {
			signs := slices.ContainsFunc(verify.Signature.Headers, func(h string) bool { return http.CanonicalHeaderKey(h) == name })
			if len(verify.Signature.Headers) == 0 {
				signs = !slices.Equal(d.Header[name], values)
			}
			if signs && len(values) > 0 {
				r.Header[name] = []string{spoil(values[0])}
				spoiled = true
			}
		}
		if !spoiled {
			return nil, usagef("%s puts no signature in a header: --tamper signature has nothing to spoil", to.provider.Name())
		}
	}
	return r, nil
}

// spoil changes one character of a signature, some distance before its end, because the last
// characters of base64 may contain unused bits.
func spoil(signature string) string {
	b := []byte(signature)
	for i := max(len(b)-8, 0); i >= 0 && i < len(b); i-- {
		switch c := b[i]; {
		case c == '0':
			b[i] = '1'
			return string(b)
		case c > '0' && c <= '9', c > 'a' && c <= 'z', c > 'A' && c <= 'Z':
			b[i]--
			return string(b)
		case c == 'a', c == 'A':
			b[i]++
			return string(b)
		}
	}
	return signature + "x"
}
