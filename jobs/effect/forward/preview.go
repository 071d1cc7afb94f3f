package forward

import (
	"context"
	"net/http"
	"slices"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs/effect"
)

var _ effect.Previewer = (*Sender)(nil)

// hiddenHeader replaces the value of a configured header, because it may be a credential.
const hiddenHeader = "<secret>"

// Preview implements [effect.Previewer].
func (f *Sender) Preview(call *effect.Call) (effect.Request, *effect.Result) {
	req, err := f.request(context.Background(), call)
	if err != nil {
		return effect.Request{}, &effect.Result{Outcome: effect.Dead, Reason: reasons.Render}
	}
	for name := range f.cfg.Headers {
		if own := http.CanonicalHeaderKey(name); slices.Equal(req.Header[own], []string{f.cfg.Headers[name]}) {
			req.Header[own] = []string{hiddenHeader}
		}
	}
	// Webhook-Id is the idempotency key, which the preview shows separately.
	for _, name := range []string{HeaderAttempt, "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"} {
		req.Header.Del(name)
	}
	body := call.Event.Body
	if call.Rendered != nil {
		body = call.Rendered
	}
	return effect.Request{Method: req.Method, Address: call.Address, Headers: req.Header, Body: body}, nil
}
