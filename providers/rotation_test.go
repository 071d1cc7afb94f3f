package providers_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/oncegate/oncegate/providers"
)

// What is kept of one secret never answers for another, in one provider, at
// once, before and after rotation.
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
