package effecttest

import (
	"net/http"
	"time"

	"github.com/oncegate/oncegate/jobs/effect"
)

// Secret is a signing secret of the sender under test, Password its login password.
const (
	Secret   = "whsec_Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5"
	Password = "canary-password"
)

// secrets returns the forms in which the two could leak.
func secrets() []string {
	return []string{Secret, "Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5", "canary-canary", Password, "Y2FuYXJ5LXBhc3N3b3Jk"}
}

// Call returns a call as the worker makes it.
func Call(attempt int) *effect.Call {
	return &effect.Call{
		Event: effect.Event{
			ID: "01890a5d-ac96-774b-bcce-b302099a8057", Source: "shop", Provider: "test", EventID: "evt_1", Type: "order.paid",
			ReceivedAt: time.Unix(1_700_000_000, 0), Body: []byte("{ \"n\": 1e400000, \"s\": \"\x00\xff\" }\r\n"),
			ContentType: "application/json; charset=latin1",
			Headers:     http.Header{"Content-Type": {"application/json; charset=latin1"}},
			Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			SequenceKey: "order_7", SequenceNumber: "42",
		},
		Route: "fulfil", Key: "key-1", Attempt: attempt,
	}
}
