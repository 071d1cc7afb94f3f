package soak

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// Counts counts deliveries by kind.
type Counts struct {
	New, Duplicates, Conflicts, Refused int

	// Unavailable counts deliveries that were answered with 503 or not at all: a sender would deliver them again.
	Unavailable int

	// Wrong counts answers that must not happen. FirstWrong describes the first of them.
	Wrong      int
	FirstWrong string
}

// Deliveries is the number of deliveries that were answered as they should be.
func (c *Counts) Deliveries() int { return c.New + c.Duplicates + c.Conflicts + c.Refused }

// kind is the kind of a delivery. Of a hundred, ten are duplicates, two conflict with an earlier event, and three are
// signed with a wrong secret.
type kind int

const (
	fresh kind = iota
	duplicate
	conflict
	refused
)

func deliveryKind(n int) kind {
	switch n % 100 {
	case 7, 17, 27, 37, 47, 57, 67, 77, 87, 97:
		return duplicate
	case 33, 66:
		return conflict
	case 21, 51, 81:
		return refused
	}
	return fresh
}

const (
	secret      = "whsec_soak_0123456789abcdef0123456789abcdef"  //nolint:gosec // of a server that lives for minutes
	wrongSecret = "whsec_nobody_knows_this_one_0123456789abcdef" //nolint:gosec // likewise

	// senders is the largest number of deliveries at the same time.
	senders = 64

	// lookBack is how far back a duplicate and a conflict look for their event.
	lookBack = 500
)

// body returns the body of the n-th event, the same each time.
func body(n, total int, began time.Time) []byte {
	return fmt.Appendf(nil, `{"id":"evt_%08d","object":"event","type":"invoice.paid","created":%d,"data":{"object":{"id":"in_%d","object":"invoice","total":%d,"currency":"eur","customer":"cus_%d","lines":[{"id":"il_%d","amount":%d,"description":"a line of an invoice that is about as long as such lines are"}]}}}`,
		n, began.Unix(), n, total, n%5000, n, total)
}

// load delivers at a rate.
type load struct {
	url    string
	rate   int
	began  time.Time
	client *http.Client

	mu        sync.Mutex
	counts    Counts
	latencies []float64 // in ms, since the last call of takePercentiles
}

// run delivers for the given time. Each delivery is made when it is due, however long others take, and its latency
// counts from then.
func (l *load) run(ctx context.Context, length time.Duration) {
	pace := rig.Pace{PerSecond: l.rate, Length: length, Senders: senders}
	pace.Run(ctx, l.began, func(n int, due time.Time) { l.deliver(ctx, n, due) })
}

func (l *load) deliver(ctx context.Context, n int, due time.Time) {
	what, event, total, key := deliveryKind(n), n, n, secret
	switch what {
	case duplicate, conflict:
		for event = max(n-lookBack, 0); deliveryKind(event) != fresh; event++ {
		}
		if total = event; what == conflict {
			total = n + 1_000_000_000
		}
	case refused:
		key = wrongSecret
	case fresh:
	}
	status, err := rig.Deliver(ctx, l.client, l.url, key, body(event, total, l.began))
	took := float64(time.Since(due)) / float64(time.Millisecond)
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	good := status/100 == 2
	if what == refused {
		good = status == http.StatusUnauthorized || status == http.StatusBadRequest
	}
	switch {
	case err != nil || status == http.StatusServiceUnavailable:
		l.counts.Unavailable++
		return
	case !good:
		if l.counts.Wrong++; l.counts.FirstWrong == "" {
			l.counts.FirstWrong = fmt.Sprintf("delivery %d (kind %d) was answered %d", n, what, status)
		}
		return
	case what == fresh:
		l.counts.New++
	case what == duplicate:
		l.counts.Duplicates++
	case what == conflict:
		l.counts.Conflicts++
	default:
		l.counts.Refused++
		return // no acknowledgement
	}
	l.latencies = append(l.latencies, took)
}

// takePercentiles returns the percentiles since the last call.
func (l *load) takePercentiles(values map[string]float64) {
	l.mu.Lock()
	latency := l.latencies
	l.latencies = nil
	l.mu.Unlock()
	if len(latency) == 0 {
		return
	}
	slices.Sort(latency)
	values["latency p50"] = latency[len(latency)/2]
	values["latency p99"] = latency[len(latency)*99/100]
}

func (l *load) total() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

// validate returns what makes the run worthless, if anything does.
func (c *Counts) validate(planned int) error {
	var errs []error
	if c.Wrong > 0 {
		errs = append(errs, fmt.Errorf("%d answers that must not be; %s", c.Wrong, c.FirstWrong))
	}
	if c.Unavailable*1000 > planned {
		errs = append(errs, fmt.Errorf("%d of %d deliveries were put off, more than one in a thousand", c.Unavailable, planned))
	}
	if c.Deliveries()*100 < planned*95 {
		errs = append(errs, fmt.Errorf("%d of %d deliveries were made: this machine cannot keep the rate", c.Deliveries(), planned))
	}
	return errors.Join(errs...)
}
