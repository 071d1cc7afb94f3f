package sender

import (
	"encoding/base64"
	"net/http"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// Source is a provider whose deliveries are sent to one source.
type Source struct {
	// Name is the source's name, and Provider the name of its provider in the catalogue.
	Name, Provider string

	// Secret is the secret in the configuration. Wrong is another one of the same form.
	Secret, Wrong string

	header func(secret, id, eventType string, at time.Time, body []byte) http.Header
}

// Header is the header of a delivery that was signed at a time.
func (s *Source) Header(id, eventType string, at time.Time, body []byte) http.Header {
	return s.header(s.Secret, id, eventType, at, body)
}

// Stripe is a source whose deliveries are signed as Stripe signs.
func Stripe(secret, wrong string) Source {
	return Source{Name: "stripe", Provider: "stripe", Secret: secret, Wrong: wrong, header: func(secret, _, _ string, at time.Time, body []byte) http.Header {
		return rig.StripeHeader(secret, at, body)
	}}
}

// GitHub is a source whose deliveries are signed as GitHub signs. Its id and its type are headers.
func GitHub(secret, wrong string) Source {
	return Source{Name: "github", Provider: "github", Secret: secret, Wrong: wrong, header: func(secret, id, eventType string, _ time.Time, body []byte) http.Header {
		return http.Header{
			"Content-Type": {"application/json"}, "X-Github-Delivery": {id}, "X-Github-Event": {eventType},
			"X-Hub-Signature-256": {rig.GitHubSignature(secret, body)},
		}
	}}
}

// standardPrefix marks the secrets of Standard Webhooks. The key follows it in base64.
const standardPrefix = "whsec_"

// Standard is a source whose deliveries are signed as Standard Webhooks prescribes, with the given keys.
func Standard(key, wrong []byte) Source {
	name := func(key []byte) string { return standardPrefix + base64.StdEncoding.EncodeToString(key) }
	keys := map[string][]byte{name(key): key, name(wrong): wrong}
	return Source{
		Name: "standard", Provider: "standard-webhooks", Secret: name(key), Wrong: name(wrong),
		header: func(secret, id, _ string, at time.Time, body []byte) http.Header {
			return rig.StandardHeader(keys[secret], id, at, body)
		},
	}
}
