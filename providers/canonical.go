package providers

import "github.com/oncegate/oncegate/internal/jsonspan"

// Canonical gives the one form of a JSON payload in which order of keys, white
// space and spelling of texts do not matter, after RFC 8785 but with numbers as
// written, and without the fields that the provider changes between deliveries.
// ok is false if the body is not JSON, or has a key twice and so no one meaning.
func (p *Provider) Canonical(body []byte) (canonical []byte, ok bool) {
	return jsonspan.Canonical(body, p.volatile)
}

// Differences names the JSON paths in which two payloads differ, sorted, at most
// 20; never their values. "$" is the whole, where one of them is not JSON.
func (p *Provider) Differences(a, b []byte) []string {
	return (&Comparison{volatile: p.volatile}).Differences(a, b)
}
