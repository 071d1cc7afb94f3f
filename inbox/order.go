package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/sequence"
)

// orderAsk asks to claim an effect if its place in its stream allows. As the chain of a
// stream it names no effect and claims the next one.
type orderAsk struct {
	effect, token ID
	jobID         int64
	routeID       int32
	hash          []byte

	obtained bool // its row is locked by us
	claimed  ID   // what was claimed for it
	late     bool
}

// order is one transaction that decides about streams: it locks them, reads what the
// decisions need, and writes the decisions. No other code moves the effects of an
// ordered route.
type order struct {
	store *Effects
	send  func(context.Context, *pgx.Batch) error

	streams []*orderStream // as they were first named
	byKey   map[string]*orderStream

	tried   []bool   // which of the settlements obtained their streams and effects
	applied []bool   // and of which the fence matched
	patient bool     // one settlement alone, which waits a moment for its stream
	counts  []func() // for the counters, once it is committed
	wakes   []Wake

	checking bool // no attempt has ended: the sweeper checks held effects
	found    int  // how many of them were free to run
}

func (e *Effects) newOrder(send func(context.Context, *pgx.Batch) error) *order {
	return &order{store: e, send: send, byKey: map[string]*orderStream{}}
}

// streamFor adds a stream to the transaction, or returns it if it was added before.
func (o *order) streamFor(routeID int32, hash []byte) *orderStream {
	key := streamName(routeID, hash)
	if s := o.byKey[key]; s != nil {
		return s
	}
	s := &orderStream{routeID: routeID, hash: hash, named: map[ID]orderRow{}}
	o.byKey[key] = s
	o.streams = append(o.streams, s)
	return s
}

func streamName(routeID int32, hash []byte) string {
	return string([]byte{byte(routeID >> 24), byte(routeID >> 16), byte(routeID >> 8), byte(routeID)}) + string(hash)
}

func columnsOf(streams []*orderStream) (routes []int32, hashes [][]byte) {
	routes, hashes = make([]int32, len(streams)), make([][]byte, len(streams))
	for i, s := range streams {
		routes[i], hashes[i] = s.routeID, s.hash
	}
	return routes, hashes
}

// queueLock locks the streams, before anything else. A stream that another transaction
// has locked stays unchanged, without an id.
func (o *order) queueLock(b *pgx.Batch, streams []*orderStream) {
	routes, hashes := columnsOf(streams)
	b.Queue(lockStreams, routes, hashes).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var found foundStream
			if err := rows.Scan(found.into()...); err != nil {
				return err
			}
			o.obtained(found.stream())
		}
		return rows.Err()
	})
}

// obtained stores the row of a stream that was read when its lock was obtained.
func (o *order) obtained(found *orderStream) {
	s := o.byKey[streamName(found.routeID, found.hash)]
	found.named, found.asks, found.chain, found.rows = s.named, s.asks, s.chain, s.rows
	*s = *found
}

// missed are the streams whose locks were not obtained.
func (o *order) missed() (missed []*orderStream) {
	for _, s := range o.streams {
		if s.id == 0 {
			missed = append(missed, s)
		}
	}
	return missed
}

// queueNamed reads the effects that the decisions are about.
func (o *order) queueNamed(b *pgx.Batch, statement string, ids []ID) {
	if len(ids) == 0 {
		return
	}
	b.Queue(statement, ids).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var routeID int32
			var hash []byte
			var row orderRow
			var number string
			if err := rows.Scan(&routeID, &hash, &row.id, &number, &row.state, &row.filtered, &row.due, &row.jobID, &row.aside, &row.waived); err != nil {
				return err
			}
			row.number, _ = sequence.ParseNumber(number)
			if s := o.byKey[streamName(routeID, hash)]; s != nil {
				s.named[row.id] = row
				for _, a := range s.asks {
					a.obtained = a.obtained || a.effect == row.id && statement == lockAsked
				}
			}
		}
		return rows.Err()
	})
}

// queueRead reads what the decisions about the streams need.
func (o *order) queueRead(b *pgx.Batch, streams []*orderStream) {
	routes, hashes := columnsOf(streams)
	modes := make([]string, len(streams))
	for i, s := range streams {
		s.forget()
		if route, known := o.store.routes[s.routeID]; known {
			if modes[i] = string(s.ordered(route).Mode); !route.Order.Ordered() {
				modes[i] = string(sequence.None)
			}
		}
	}
	b.Queue(readOrder, routes, hashes, modes, orderShown).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var place int64
			var part int
			var row orderRow
			var number string
			if err := rows.Scan(&place, &part, &row.id, &number, &row.state, &row.filtered, &row.due, &row.jobID, &row.twin, &row.waived); err != nil {
				return err
			}
			row.number, _ = sequence.ParseNumber(number)
			streams[place-1].add(part, row)
		}
		return rows.Err()
	})
}

// begin sends the first batch, which ends with the data that the decisions need. It
// inserts a row for each stream that has none. A stream that is still missed after that
// is locked by another transaction, and nothing is decided about it.
func (o *order) begin(ctx context.Context, b *pgx.Batch, ids []ID) error {
	if err := o.send(ctx, b); err != nil {
		return err
	}
	missed := o.missed()
	if len(missed) == 0 {
		return o.learn(ctx)
	}
	var again pgx.Batch
	routes, hashes := columnsOf(missed)
	again.Queue(insertMissingStreams, routes, hashes, o.definitionsOf(missed))
	o.queueLock(&again, missed)
	o.queueNamed(&again, readAsked, ids)
	o.queueRead(&again, o.streams)
	if err := o.send(ctx, &again); err != nil {
		return err
	}
	return o.learn(ctx)
}

// definitionsOf returns the definitions that the streams' routes have in this process.
func (o *order) definitionsOf(streams []*orderStream) []int64 {
	out := make([]int64, len(streams))
	for i, s := range streams {
		out[i] = o.store.routes[s.routeID].Series.ID
	}
	return out
}

// maxOrderRounds bounds how often a decision is taken up again in one transaction.
const maxOrderRounds = 1000

// decide decides about all streams and queues the resulting writes on the last batch.
// The caller sends that batch, so that finish may add to it.
func (o *order) decide(ctx context.Context, ids []ID, last *pgx.Batch) error {
	open := o.streams
	for round := 0; ; round++ {
		if round == maxOrderRounds {
			return fmt.Errorf("the order of %d streams does not come to an end", len(open))
		}
		var w orderWrites
		var more []*orderStream
		for _, s := range open {
			if s.id != 0 && o.plan(s, &w) {
				more = append(more, s)
			}
		}
		if err := o.jobs(ctx, &w); err != nil {
			return err
		}
		if len(more) == 0 {
			w.queue(last)
			o.store.enqueuer.EnqueueTx(last, o.wakes)
			return nil
		}
		var b pgx.Batch
		w.queue(&b)
		o.queueNamed(&b, readAsked, ids)
		o.queueRead(&b, more)
		if err := o.send(ctx, &b); err != nil {
			return err
		}
		open = more
	}
}

// plan decides about one stream. It reports whether the stream has to be read again.
func (o *order) plan(s *orderStream, w *orderWrites) (more bool) {
	s.sort()
	route, known := o.store.routes[s.routeID]
	if !known {
		o.wakeUnknown(s, w)
		return false
	}
	now := s.now
	if o.checking {
		now = s.checkTime()
	}
	plan := sequence.Decide(s.ordered(route), s.view(), now)
	if o.checking && s.unfinished(&plan) {
		return false
	}
	counters := o.store.order.Of(s.routeID)
	next := orderStream{routeID: s.routeID, id: s.id, applied: plan.Applied, gapSince: plan.GapSince, inFlight: s.inFlight}
	if !s.busy {
		next.inFlight = ID{}
	}
	if plan.Blocked >= 0 {
		next.blockedBy = s.rows[plan.Blocked].id
	}
	if plan.Warned {
		next.warnedAt = s.warnedAt
		if s.warnedAt.IsZero() {
			next.warnedAt = s.now
		}
	}
	if plan.Warn {
		o.count(func() { counters.longGaps.Add(1) })
	}
	for _, gap := range plan.Abandoned {
		w.gaps = append(w.gaps, abandonedGap{stream: s.id, at: s.now, since: s.gapSince, gap: gap})
		o.count(func() { counters.abandonedGaps.Add(1) })
	}
	for i, d := range plan.Decisions {
		wakeAt := time.Time{}
		if plan.Wake == i {
			wakeAt = plan.WakeAt
		}
		if id := o.move(s, &s.rows[i], d, wakeAt, route, counters, w); !id.IsZero() {
			next.inFlight = id
		}
	}
	if s.full && !plan.Below.IsZero() {
		w.below = append(w.below, supersedeBelow{routeID: s.routeID, hash: s.hash, number: plan.Below, count: &counters.superseded})
	}
	next.now = s.now
	if next.applied != s.applied || !next.gapSince.Equal(s.gapSince) || !next.warnedAt.Equal(s.warnedAt) ||
		next.inFlight != s.inFlight || next.blockedBy != s.blockedBy {
		w.streams = append(w.streams, next)
		s.applied, s.gapSince, s.warnedAt, s.inFlight, s.blockedBy = next.applied, next.gapSince, next.warnedAt, next.inFlight, next.blockedBy
	}
	return plan.More
}

// wakeUnknown wakes the first held effect of a stream whose policy this process does
// not know. The worker that claims it knows the policy and decides.
func (o *order) wakeUnknown(s *orderStream, w *orderWrites) {
	next := *s
	if !s.busy {
		next.inFlight = ID{}
	}
	if row, ended := s.named[s.blockedBy]; ended && row.state != EffectDead && row.state != EffectIndeterminate {
		next.blockedBy = ID{}
	}
	if next.inFlight != s.inFlight || next.blockedBy != s.blockedBy {
		w.streams = append(w.streams, next)
	}
	if s.busy {
		return
	}
	for i := range s.rows {
		if s.rows[i].state == EffectHeld {
			w.moves = append(w.moves, orderMove{id: s.rows[i].id, state: EffectPending, newJob: true})
			return
		}
	}
}

func (o *order) count(f func()) { o.counts = append(o.counts, f) }

// committed updates the counters after the commit.
func (o *order) committed() {
	o.store.locked.recordFree(o.streams)
	for _, f := range o.counts {
		f()
	}
}
