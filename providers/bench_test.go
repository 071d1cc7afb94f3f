package providers_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// twoKilobytes is a body like those that arrive most.
func twoKilobytes() string {
	const head = `{"id":"evt_1","object":"event","created":1714000000,"data":{"object":{"id":"in_1","updated_at":"2024-05-04T12:00:00Z","lines":[`
	const line = `{"id":"il_1","amount":4200,"currency":"eur","description":"A line of an invoice","period":{"start":1714000000,"end":1716678400}},`
	const tail = `]}},"type":"invoice.paid","event_id":"evt_1","event_type":"invoice.paid"}`
	n := (2048 - len(head) - len(tail)) / len(line)
	return head + strings.TrimSuffix(strings.Repeat(line, n), ",") + tail
}

// measured are providers of every format of the HMAC families, with the hash that
// each signs with: signatures in lists and alone, in hex and in base64, with and
// without a signed time.
var measured = []struct {
	name string
	hash func() hash.Hash
}{
	{"stripe", sha256.New},
	{"github", sha256.New},
	{"standard-webhooks", sha256.New},
	{"shopify", sha256.New},
	{"paddle", sha256.New},
	{"workos", sha256.New},
	{"slack", sha256.New},
	{"twitch", sha256.New},
	{"zoom", sha256.New},
	{"vercel", sha1.New},
}

// BenchmarkVerify measures the cost of verifying and reading a delivery of 2 KB. The reference is
// the bare HMAC of the same body, and the target is at most twice that if the sender sends an event
// id. If it sends none, as Zoom, the pass that finds the fields also prepares the canonical form,
// which is then copied and hashed for the id. The members of this body are out of order in every
// object, which is the worst case for copying.
func BenchmarkVerify(b *testing.B) {
	loaded := catalogtest.Load(b)
	body := []byte(twoKilobytes())
	secret := []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	for name, newHash := range map[string]func() hash.Hash{"sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New} {
		b.Run("bare/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				mac := hmac.New(newHash, secret)
				mac.Write(body)
				mac.Sum(nil)
			}
		})
	}
	for _, m := range measured {
		p, req, secrets := signed(b, loaded[m.name], body, secret)
		b.Run(m.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Verify(req, secrets); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// How many times the bare HMAC of its body, by the provider's own hash, a delivery
// costs. The two take turns, and the best turn of each counts, so that a busy machine
// disturbs both alike.
func BenchmarkRatio(b *testing.B) {
	loaded := catalogtest.Load(b)
	body := []byte(twoKilobytes())
	secret := []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	best := func(least *time.Duration, turn func()) {
		const runs = 200
		start := time.Now()
		for range runs {
			turn()
		}
		if took := time.Since(start) / runs; *least == 0 || took < *least {
			*least = took
		}
	}
	for _, m := range measured {
		p, req, secrets := signed(b, loaded[m.name], body, secret)
		b.Run(m.name, func(b *testing.B) {
			var bare, verified time.Duration
			verify := func() {
				if _, err := p.Verify(req, secrets); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				best(&bare, func() {
					mac := hmac.New(m.hash, secret)
					mac.Write(body)
					mac.Sum(nil)
				})
				best(&verified, verify)
			}
			b.ReportMetric(testing.AllocsPerRun(100, verify), "allocs/delivery")
			b.ReportMetric(float64(verified)/float64(bare), "x-bare")
		})
	}
}

// signed is a delivery of the provider that verifies.
func signed(b *testing.B, p *providers.Provider, body, secret []byte) (*providers.Provider, *providers.Request, []providers.Secret) {
	b.Helper()
	req := &providers.Request{Method: http.MethodPost, URL: "https://example.com/in/x", Header: http.Header{}, Body: body, ReceivedAt: noon}
	req.Header.Set("Content-Type", "application/json")
	for _, prefix := range []string{"", "X-"} { // parts of the event id of some
		req.Header.Set(prefix+"Shopify-Topic", "invoices/paid")
		req.Header.Set(prefix+"Shopify-Shop-Domain", "example.myshopify.com")
	}
	secrets := []providers.Secret{{Name: "current", Value: secret}}
	if err := p.Sign(req, secrets[0], "evt_1"); err != nil {
		b.Fatal(err)
	}
	return p, req, secrets
}
