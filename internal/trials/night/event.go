package night

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/drill/sender"
)

// sources are the providers of the night, which take turns. The servers live for minutes.
var sources = []sender.Source{
	sender.Stripe("whsec_night_0123456789abcdef0123456789abcdef", ""), sender.GitHub("night-0123456789abcdef", ""), sender.Standard([]byte("night-standard-0123456789abcdef"), nil),
}

// Event is one event of the night.
type Event struct {
	Source, ID, Type string

	// Mode is how billing behaved when the event came.
	Mode Mode

	// Total is a number in the body that a condition depends on.
	Total int

	source *sender.Source
	body   []byte
}

// newEvent makes the n-th event of the night. The sources and types take turns. The event is dated now, because one
// that is older than tombstones are kept would be held.
func newEvent(n int, mode Mode) Event {
	e := Event{Mode: mode, Total: n % 7, source: &sources[n%len(sources)]}
	switch e.Source = e.source.Name; e.Source {
	case "stripe":
		e.ID, e.Type = fmt.Sprintf("evt_%06d", n), "invoice.paid"
		if n%4 == 0 {
			e.Type = "invoice.voided"
		}
		e.body = fmt.Appendf(nil, `{"id":%q,"object":"event","type":%q,"created":%d,"data":{"object":{"id":"in_%d","total":%d,"client_secret":"s3cret-%d"}}}`, e.ID, e.Type, time.Now().Unix(), n, e.Total, n)
	case "github":
		e.ID, e.Type = fmt.Sprintf("00000000-0000-4000-8000-%012d", n), "issues"
		e.body = fmt.Appendf(nil, `{"action":"opened","issue":{"id":%d,"number":%d,"title":"night","updated_at":"2026-01-01T00:00:00Z"},"repository":{"id":1,"full_name":"o/r"}}`, n, n)
	default:
		e.ID, e.Type = fmt.Sprintf("msg_%06d", n), "order.placed"
		e.body = fmt.Appendf(nil, `{"type":"order.placed","data":{"order":%d,"total":%d}}`, n, e.Total)
	}
	return e
}

// senders is the number of deliveries at the same time.
const senders = 16

// deliver delivers the events, every twentieth of them twice, and fails if one is not acknowledged.
func (n *Campaign) deliver(ctx context.Context, events []Event) error {
	client := rig.NewClient(senders, 30*time.Second)
	defer client.CloseIdleConnections()
	var deliveries []*Event
	for i := range events {
		deliveries = append(deliveries, &events[i])
		if i%20 == 0 {
			deliveries = append(deliveries, &events[i])
		}
	}
	return rig.SendEach(ctx, len(deliveries), senders, func(ctx context.Context, i int) error { return n.post(ctx, client, deliveries[i]) })
}

func (n *Campaign) post(ctx context.Context, client *http.Client, e *Event) error {
	status, _, err := rig.Post(ctx, client, n.node.SourceURL(e.Source), e.body, e.source.Header(e.ID, e.Type, time.Now(), e.body))
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("it was answered %d", status)
	}
	if err != nil {
		return fmt.Errorf("delivering %s/%s: %w", e.Source, e.ID, err)
	}
	return nil
}
