package config_test

import "testing"

// A fetch is declared at a route. Where it may go, and what reads its answer, is checked when the file is read. A token
// is never printed.
func TestFetchOfARoute(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ printed, problem string }{
		`target: api, fetch: { url: "https://api.example/{body.id}", bearer: env:STRIPE_SECRET }, when: fetched.paid, key: [fetched.id], map: fetched`: {printed: "env: STRIPE_SECRET"},
		`target: api, fetch: { url: "https://api.example/{form.id}?a={headers['x-a']}", max_size: 1MiB }`:                                              {printed: "url: https://api.example/{form.id}?a={headers['x-a']}"},
		`target: api, fetch: { url: "https://api.example/{body.id}", hosts: [api.example], headers: { X-Own: env:STRIPE_SECRET } }`:                    {printed: "X-Own: <secret>"},
		`target: ledger, fetch: { url: "{body.url}", hosts: [api.example, "*.shop.example", "http://localhost:9000"] }`:                                {printed: "- http://localhost:9000"},
		`target: addressed, fetch: { url: "https://api.example/" }`:                                                                                    {printed: "url: https://api.example/"},
		`target: receipts, fetch: { url: "https://api.example/" }, mail: { to: fetched.email, subject: "{{.Fetched.title}}", text: t }`:                {printed: "to: fetched.email"},

		`target: api, fetch: {}`: {problem: "url is missing"},
		`target: api, fetch: { url: "https://api.example/", bearer: sk_live_x }`:                                        {problem: "must be a reference"},
		`target: api, fetch: { url: "https://api.example/", bearer: env:ABSENT }`:                                       {problem: "ABSENT"},
		`target: api, fetch: { url: "https://api.example/", bearer: [env:STRIPE_SECRET, env:SIGN_SECRET] }`:             {problem: "a request carries one token"},
		`target: api, fetch: { url: "https://api.example/", bearer: env:STRIPE_SECRET, headers: { authorization: a } }`: {problem: "bearer and the header Authorization exclude each other"},
		`target: api, fetch: { url: "https://api.example/{body.id}", hosts: [other.example] }`:                          {problem: "url: its server https://api.example is not in hosts"},
		`target: api, fetch: { url: "http://api.example/{body.id}", hosts: [api.example] }`:                             {problem: "url: its server http://api.example is not in hosts"},
		`target: api, fetch: { url: "{body.url}" }`:                                                                     {problem: "hosts is missing"},
		`target: api, fetch: { url: "{body.url}", hosts: [] }`:                                                          {problem: "the list is empty"},
		`target: api, fetch: { url: "{body.url}", hosts: ["*"] }`:                                                       {problem: "is not a host such as"},
		`target: api, fetch: { url: "{body.url}", hosts: ["*.example"] }`:                                               {problem: "a whole top-level domain"},
		`target: api, fetch: { url: "{body.url}", hosts: [api.example/v1] }`:                                            {problem: "is not a host such as"},
		`target: api, fetch: { url: "https://{body.shop}/x" }`:                                                          {problem: "a value can stand in the path and in the query only"},
		`target: api, fetch: { url: "https://api.example/{key}" }`:                                                      {problem: "{key} is no expression of a fetch, which carries no key"},
		`target: api, fetch: { url: "https://api.example/{fetched.id}" }`:                                               {problem: "{fetched.id} is no expression of a fetch"},
		`target: api, fetch: { url: "https://api.example/{body.id" }`:                                                   {problem: "a { has no }"},
		`target: api, fetch: { url: "ftp://api.example/" }`:                                                             {problem: "not an address such as https://host/path"},
		`target: api, fetch: { url: "https://api.example/", max_size: 9MiB }`:                                           {problem: "max_size must be at most"},
		`target: api, fetch: { url: "https://api.example/", method: POST }`:                                             {problem: "method"},
		`target: api, timeout: 50s, fetch: { url: "https://api.example/" }`:                                             {problem: "an attempt of 1m does not fit into work.lease of 1m"},
		`target: api, when: fetched.paid`:                                                                               {problem: "reads fetched, and the route has no fetch"},
		`target: api, map: { a: { b: fetched.id } }`:                                                                    {problem: "reads fetched, and the route has no fetch"},
		`target: api, key: [fetched.id]`:                                                                                {problem: "reads fetched, and the route has no fetch"},
		`target: addressed`:                                                                                             {problem: "url of target addressed reads fetched"},
		`target: ledger`:                                                                                                {problem: "parameter id of target ledger reads fetched"},
		`target: receipts, mail: { to: fetched.email, subject: s, text: t }`:                                            {problem: "reads fetched, and the route has no fetch"},
		`target: receipts, mail: { to: body.a, subject: "{{.Fetched.title}}", text: t }`:                                {problem: "unknown field .Fetched: the route has no fetch"},
		`target: api, fetch: { url: "https://api.example/" }, order: { mode: latest, key: fetched.id, number: body.n }`: {problem: "fetched"},
	} {
		file := `targets:
  api: { kind: forward, url: "https://a.example", idempotent: true }
  addressed: { kind: forward, url: "https://a.example/{fetched.id}", idempotent: true }
  ledger: { kind: sql, statement: "SELECT @id", parameters: { id: fetched.id } }
  receipts: { kind: mail, smtp: "smtp://a.example", from: a@b.example }
sources: { stripe: { provider: stripe, secrets: [env:STRIPE_SECRET], routes: [{ name: one, ` + text + ` }] } }
`
		if c := loadOrRefuse(t, text, file, want.problem); c != nil {
			wantPrinted(t, text, c, want.printed)
		}
	}
}
