package gate

import (
	"crypto/sha256"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/pgtext"
)

// delivery is an admission on its way through the queue. Everything that takes time is
// computed before it is queued, in the caller's goroutine. Its ids are made once and kept
// when its group runs again.
type delivery struct {
	admission *inbox.Admission
	bodyID    inbox.ID
	queuedAt  time.Time
	entered   time.Time // by the machine's own clock; the deadline counts from it
	entries   []entry
	lane      *lane // in which it waits

	// stored: the body is committed, so that events may point to it.
	stored bool

	// tried: a group with the delivery has run, and may have been committed.
	tried bool

	// partOf is the delivery whose body and receipt this part shares; nil for a whole one.
	partOf *delivery

	// secret is the one under which hashes are stored.
	secret inbox.InstallationSecret

	// What the body's row gets: admission's headers and body, sealed if there is a keyring.
	headers, body []byte
	keyID         *int32

	receipt inbox.Receipt
	err     error
	done    chan struct{}
}

// entry is one event of a delivery.
type entry struct {
	delivery  *delivery
	item      int
	eventID   string
	id        inbox.ID
	sha       [sha256.Size]byte
	canonical []byte // operations only

	// The two hashes in the form in which they are stored.
	stored, storedCanonical []byte

	// formerID is the id under which an unusable event is recorded from before there was a keyring; empty for all others.
	formerID string

	admission string
	detail    string
	effects   []effectRow
	labels    []storedLabel

	// What the run of its group found:
	row     inbox.ID // the recorded event
	differs bool     // recorded before, with other bytes
}

// effectRow is an effect to be written with its event.
type effectRow struct {
	id    inbox.ID
	route *inbox.Route
	key   string
	place *sequencePlace // in its sequence; nil if the route is unordered
}

// prepare makes the delivery with its ids. The ids of the body and of its events are made
// in the same millisecond, because prune and erase find the events of a body by that.
func prepare(a *inbox.Admission, now time.Time) *delivery {
	d := &delivery{
		admission: a,
		headers:   a.Headers,
		body:      a.Body,
		bodyID:    inbox.NewID(now),
		queuedAt:  now,
		entries:   make([]entry, len(a.Events)),
		receipt:   inbox.Receipt{Items: make([]inbox.ItemReceipt, len(a.Events))},
		done:      make(chan struct{}),
	}
	if d.headers == nil {
		d.headers = []byte{} // NULL says that the headers or the body were erased
	}
	if d.body == nil {
		d.body = []byte{}
	}
	for i := range a.Events {
		d.entries[i] = prepareEntry(d, i, now)
	}
	return d
}

// hash makes the stored form of the hashes, in the caller's goroutine. The id of an unusable event is made of it.
func (d *delivery) hash(secret inbox.InstallationSecret) {
	d.secret = secret
	for i := range d.entries {
		e := &d.entries[i]
		e.stored, e.storedCanonical = secret.StoredHash(e.sha[:]), secret.StoredHash(e.canonical)
		if e.admission != inbox.AdmissionUnusable {
			continue
		}
		e.eventID = inbox.UnusableID(e.stored)
		if secret.Value != nil {
			e.formerID = inbox.UnusableID(e.sha[:])
		}
	}
}

func prepareEntry(d *delivery, item int, now time.Time) entry {
	a, event := d.admission, &d.admission.Events[item]
	bytes := a.Body[event.Offset : event.Offset+event.Length]
	e := entry{
		delivery: d, item: item, eventID: event.EventID, id: inbox.NewID(now),
		sha: sha256.Sum256(bytes), admission: inbox.AdmissionOK, detail: event.Unusable,
	}
	if event.Unusable != "" || !pgtext.Storable(event.EventID) || !pgtext.Storable(event.Type) && event.Type != "" {
		e.admission = inbox.AdmissionUnusable // its id is its hash: see [delivery.hash]
		if e.detail == "" {
			e.detail = "the event id or type is not 1 to 255 bytes of UTF-8 without NUL"
		}
		return e
	}
	if a.Source.Strict {
		e.canonical = a.Source.Comparison(event.Type).Sum(bytes)
	}
	if isBeyondRetention(a.Source, event, now) {
		// Still a duplicate if its key is recorded; never admitted as new.
		e.admission = inbox.AdmissionBeyondRetention
		e.detail = "it is from " + event.DatedAt.UTC().Format(time.RFC3339) + ", longer ago than keys are kept"
		return e
	}
	e.admission = inbox.AdmissionUnrouted
	switch {
	case a.Reconciled:
		e.detail = inbox.DetailReconciled
	case a.Buffered:
		e.detail = inbox.DetailBuffered
	}
	for i := range a.Source.Routes {
		route := &a.Source.Routes[i]
		matches := route.Matches(event.Type)
		if matches {
			e.admission = inbox.AdmissionOK
		}
		var at *sequencePlace
		if route.Order.Ordered() {
			at = placeOf(a, item, route, matches)
		}
		if matches || at != nil {
			e.effects = append(e.effects, effectRow{id: inbox.NewID(now), route: route, key: inbox.IdempotencyKey(a.Source.FirstName(), e.eventID, route.FirstName()), place: at})
		}
	}
	return e
}

// isBeyondRetention reports whether the event is older than the source's keys are kept.
func isBeyondRetention(s *inbox.Source, event *inbox.NewEvent, now time.Time) bool {
	return s.Tombstone > 0 && !event.DatedAt.IsZero() && now.Sub(event.DatedAt) > s.Tombstone
}

// size is what the delivery costs in memory and on the wire, roughly: the body
// and a row for each event.
func (d *delivery) size() int {
	if d.partOf != nil {
		return 512 * len(d.entries) // the whole has the rest
	}
	size := len(d.admission.Body) + 512*len(d.entries)
	if d.keyID != nil {
		size += len(d.body) // a copy
	}
	return size
}

// answer wakes the waiting caller with the rows that were found or inserted. It first returns the delivery's bytes to the
// queue's budget, because a caller that was answered may send the next delivery at once.
func (d *delivery) answer(err error) {
	d.err = err
	d.lane.queuedBytes.Add(-int64(d.size()))
	close(d.done)
}
