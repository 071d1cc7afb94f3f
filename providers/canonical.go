package providers

import "github.com/oncegate/oncegate/internal/jsonspan"

// Canonical returns the canonical form of the JSON document of a delivery ([Provider.Document]). It ignores order of keys, white space and
// escapes, as RFC 8785 does, but keeps numbers as written. It omits the fields that the provider
// changes between deliveries. ok is false if the body is not JSON, or has a key twice and is
// therefore ambiguous.
func (p *Provider) Canonical(body []byte) (canonical []byte, ok bool) {
	return jsonspan.Canonical(p.Document(body), p.volatile)
}

// Differences returns the JSON paths in which two payloads differ, sorted, at most 20, and never
// the values. The path "$" means that one of them is not JSON.
func (p *Provider) Differences(a, b []byte) []string {
	return (&Comparison{volatile: p.volatile, document: p.Document}).Differences(a, b)
}
