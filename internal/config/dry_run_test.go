package config_test

import (
	"testing"
)

// A dry run is declared separately from the request that does the work, and must differ from it.
func TestDryRunOfATarget(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ printed, problem string }{
		`{ url: "https://bank.example/dry" }`:                                        {printed: "url: https://bank.example/dry"},
		`{ url: "https://bank.example/pay?dry=1", method: GET }`:                     {printed: "method: GET"},
		`{ url: "https://bank.example/pay", headers: { X-Dry: "yes" } }`:             {printed: "X-Dry: <secret>"},
		`{ url: "https://bank.example/pay", body: { sum: body.sum, dry: "true" } }`:  {printed: "dry: \"true\""},
		`{ url: "https://bank.example/{event.id}/dry", volatile: [id, items.*.at] }`: {printed: "- items.*.at"},

		`{}`:                                  {problem: "url is missing"},
		`{ url: "https://bank.example/pay" }`: {problem: "dry_run is the request that does the work"},
		`{ url: "https://BANK.example:443/pay/", method: POST }`:                    {problem: "dry_run is the request that does the work"},
		`{ url: "https://books.example/entries", method: PUT }`:                     {problem: "it is the request that does the work of target books"},
		`{ url: "https://bank.example/dry/{key_uuid}" }`:                            {problem: "{key_uuid} is no expression of a dry run, which carries no key"},
		`{ url: "https://bank.example/dry", body: { once: key } }`:                  {problem: "key"},
		`{ url: "https://bank.example/dry", headers: { Idempotency-Key: "1" } }`:    {problem: "carries no idempotency key"},
		`{ url: "https://bank.example/dry", method: DELETE }`:                       {problem: "DELETE"},
		`{ url: "https://bank.example/dry", method: GET, body: { sum: body.sum } }`: {problem: "a GET has no body"},
		`{ url: "https://bank.example/dry", volatile: ["items[0]"] }`:               {problem: "is not names joined by dots"},
		`{ url: "ftp://bank.example/dry" }`:                                         {problem: "not an address such as https://host/path"},
		`{ url: "https://bank.example/dry", timeout: 5s }`:                          {problem: "timeout"},
	} {
		file := `targets:
  bank: { kind: forward, url: "https://bank.example/pay", idempotent: true, dry_run: ` + text + ` }
  books: { kind: forward, url: "https://books.example/entries", method: PUT, idempotent: true }
sources: { s: { provider: operation, secrets: [{ env: STRIPE_SECRET, name: agent }] } }
`
		if c := loadOrRefuse(t, text, file, want.problem); c != nil {
			wantPrinted(t, text, c, want.printed)
		}
	}
}
