package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/oncegate/oncegate/inbox"
)

// Lister is a sender's list of events.
type Lister interface {
	// Page returns a page of the events that were created from since to until. The cursor is empty for
	// the first page, and otherwise the Next of the page before.
	Page(ctx context.Context, since, until time.Time, cursor string) (*Page, error)

	// Redeliver asks the sender for one more delivery. It wraps [ErrRefused] if the sender does not
	// deliver that event again.
	Redeliver(ctx context.Context, delivery string) error
}

// ErrRefused is wrapped by the error of [Lister.Redeliver] for one event that the sender does not deliver
// again. The run continues with the others.
var ErrRefused = errors.New("the sender does not deliver it again")

var (
	// ErrLater is wrapped by the error of a [Lister] if the same request may succeed later.
	ErrLater = errors.New("the sender cannot be asked now")

	// ErrSender is wrapped by the error of a [Lister] if the sender refuses the request, or answers with
	// something that is no list.
	ErrSender = errors.New("the sender does not answer with its events")
)

// Page is one page of a list.
type Page struct {
	Events []Event

	// Next is the cursor of the next page; empty on the last page.
	Next string
}

// Event is an event in a list.
type Event struct {
	// ID is the event's id, and Created when the sender created it; zero if that is not known.
	ID      string
	Created time.Time

	// Admission records the event. It is nil where the sender delivers again; Delivery is then what
	// [Lister.Redeliver] needs.
	Admission *inbox.Admission
	Delivery  string

	// Other says that the event is of a type that the source does not ask for.
	Other bool

	// Unusable is why it cannot be said whether the event has arrived; empty if it can.
	Unusable string
}
