package providers_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/oncegate/oncegate/providers"
)

// TestSecretsKeepApart checks that the cached state of one secret is never used for another, in one
// provider, concurrently, before and after a rotation.
func TestSecretsKeepApart(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"stripe", "github", "standard-webhooks"} {
		p := load(t, name)
		var done sync.WaitGroup
		for n := range 8 {
			done.Go(func() {
				own := providers.Secret{Name: "own", Value: fmt.Appendf(nil, "c2VjcmV0IG9mIG9uZSBzb3VyY2U%dAAAA", n)}
				other := providers.Secret{Name: "other", Value: fmt.Appendf(nil, "c2VjcmV0IG9mIG9uZSBzb3VyY2U%dAAAA", (n+1)%8)}
				for i := range 50 {
					req := &providers.Request{Method: http.MethodPost, Header: http.Header{}, ReceivedAt: noon}
					req.Body = fmt.Appendf(nil, `{"id":"evt_%d_%d","type":"a.b"}`, n, i)
					if err := p.Sign(req, own, "evt"); err != nil {
						t.Error(err)
						return
					}
					d, err := p.Verify(req, []providers.Secret{other, own})
					if err != nil || d.Secret != "own" {
						t.Errorf("%s: %v, %v", name, d, err)
						return
					}
					var refusal *providers.Refusal
					if _, err := p.Verify(req, []providers.Secret{other}); !errors.As(err, &refusal) || refusal.Reason != providers.ReasonMismatch {
						t.Errorf("%s: another's secret: %v", name, err)
						return
					}
					req.Body = append(req.Body, ' ')
					if _, err := p.Verify(req, []providers.Secret{own}); err == nil {
						t.Errorf("%s: a changed body passed", name)
						return
					}
				}
			})
		}
		done.Wait()
	}
}

// A signature far too long is refused for its length, before anything decodes it:
// it costs no more memory than one that is a byte too short.
func TestLongSignatureIsNotDecoded(t *testing.T) { //nolint:paralleltest // allocations are counted
	for name, digits := range map[string]string{"github": "sha256=%s", "shopify": "%s", "ably": "%s", "sanity": "t=1700000000000,v1=%s", "stripe": "t=1700000000,v1=%s"} {
		p := load(t, name)
		secrets := []providers.Secret{{Name: "s", Value: []byte("a secret of some length")}}
		cost := func(length int) float64 {
			req := &providers.Request{Method: http.MethodPost, Header: http.Header{}, Body: []byte(`{}`), ReceivedAt: noon}
			req.Header.Set(p.Spec().Verify.Signature.Headers[0], fmt.Sprintf(digits, strings.Repeat("0", length)))
			return testing.AllocsPerRun(20, func() {
				var refusal *providers.Refusal
				if _, err := p.Verify(req, secrets); !errors.As(err, &refusal) || refusal.Reason != providers.ReasonMalformed {
					t.Fatalf("%s: %d digits: %v", name, length, err)
				}
			})
		}
		if short, long := cost(40), cost(8000); long > short {
			t.Errorf("%s: a signature of 8000 digits costs %v allocations, one of 40 %v", name, long, short)
		}
	}
}
