package inbox_test

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/jobs"
)

// line is a stream with the numbers 5 to 9, of which 5 is done and 6 is claimed by a
// worker that goes on.
type line struct {
	*storetest.StreamBook
	key   string
	id    int64
	work  *inbox.Effects
	claim *inbox.Claim
}

// newLineBook is the database of all lines of a test.
func newLineBook(t *testing.T) *storetest.StreamBook {
	t.Helper()
	b := storetest.NewStreamBook(t)
	if err := inbox.EnsurePartitions(t.Context(), b.Pool, []string{"default"}, time.Now(), 1); err != nil {
		t.Fatal(err)
	}
	return b
}

func newLine(t *testing.T, b *storetest.StreamBook, p sequence.Policy, condition, instead string) *line {
	t.Helper()
	book := *b
	book.T = t
	l := &line{StreamBook: &book, key: inbox.NewID(time.Now()).String()}
	var err error
	l.work, err = inbox.NewEffects(inbox.EffectsConfig{
		Pool: l.Pool, Enqueuer: jobs.NewQueue(jobs.QueueConfig{}), Node: "test",
		Routes: map[int32]inbox.EffectRoute{l.Route: {Idempotent: true, Order: p, Retry: inbox.RetryPolicy{Attempts: 3, Base: time.Second, Max: time.Second}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !l.work.GoOnWith(condition, instead) {
		t.Fatalf("there is no condition %q", condition)
	}
	l.id = l.Stream(l.key, "")
	for n := 5; n <= 9; n++ {
		l.arrive(n)
	}
	storetest.Exec(t, l.Pool, `UPDATE effect SET state = 'pending', next_at = now() WHERE id = $1`, l.effectOf(5))
	first, _, err := l.work.Claim(t.Context(), l.effectOf(5), 1)
	if err != nil || first == nil {
		t.Fatalf("%+v, %v", first, err)
	}
	l.claim = l.settle(first, true).Next
	if l.claim == nil || number(l.claim) != "6" {
		t.Fatalf("after 5 comes %+v", l.claim)
	}
	return l
}

// arrive writes an effect with a body of its own, whose wake-up has come and found it waiting.
func (l *line) arrive(n int) inbox.ID {
	l.T.Helper()
	id := l.Effect(l.key, n, inbox.EffectHeld)
	storetest.Exec(l.T, l.Pool, `INSERT INTO inbox_body (class, id, headers, body) VALUES ('default', $1, '{}', $2)`, id, fmt.Appendf(nil, "body %d", n))
	storetest.Exec(l.T, l.Pool, `UPDATE inbox_event SET body_length = 6 WHERE id = $1`, id)
	return id
}

func (l *line) effectOf(n int) (id inbox.ID) {
	l.T.Helper()
	if err := l.Pool.QueryRow(l.T.Context(), `SELECT id FROM effect WHERE sequence_key_hash = $2 AND sequence_number = $1 ORDER BY id LIMIT 1`, n, l.hash()).Scan(&id); err != nil {
		l.T.Fatal(err)
	}
	return id
}

func (l *line) hash() []byte { return inbox.SequenceKeyHash("orders", "fulfil", l.key) }

func (l *line) ending(c *inbox.Claim, ahead bool) inbox.Settlement {
	s := inbox.Settlement{
		Effect: c.Effect, Token: c.Token, State: inbox.EffectDone, Outcome: inbox.AttemptDone, Trigger: c.Trigger, StartedAt: c.StartedAt,
		RouteID: c.RouteID, SequenceKeyHash: c.SequenceKeyHash, Chain: 1,
	}
	if ahead {
		s.Of = c
	}
	return s
}

func (l *line) settle(c *inbox.Claim, ahead bool) inbox.Settled {
	l.T.Helper()
	out, err := l.work.Settle(l.T.Context(), l.ending(c, ahead))
	if err != nil {
		l.T.Fatal(err)
	}
	return out
}

// standing is everything that a settlement decides.
func (l *line) standing() string {
	l.T.Helper()
	var out string
	err := l.Pool.QueryRow(l.T.Context(), `
		SELECT string_agg(concat_ws(' ', e.sequence_number, e.state, e.attempts, e.reason, e.lease_token IS NULL,
			(SELECT string_agg(t.outcome, ',') FROM effect_attempt t WHERE t.effect_id = e.id)), '; ' ORDER BY e.sequence_number, e.id)
			|| (SELECT concat_ws(' ', ' - applied', s.applied, 'in flight', (SELECT f.sequence_number FROM effect f WHERE f.id = s.in_flight),
				s.gap_since IS NULL, s.blocked_by IS NULL) FROM stream s WHERE s.id = $1)
		FROM effect e WHERE e.sequence_key_hash = $2`, l.id, l.hash()).Scan(&out)
	if err != nil {
		l.T.Fatal(err)
	}
	return out
}

// between is something that happens between a claim and its end.
type between struct {
	policy sequence.Policy
	happen func(l *line)
	next   string // the number that is claimed then
}

// same has it happen twice, before a settlement that goes on by what was read ahead
// and before one that reads everything anew, and reports what became different.
func (c *between) same(t *testing.T, b *storetest.StreamBook, condition, instead string) error {
	t.Helper()
	policy := c.policy
	policy.Mode, policy.Start = cmp.Or(policy.Mode, sequence.Contiguous), "5"
	ahead, anew := newLine(t, b, policy, condition, instead), newLine(t, b, policy, condition, instead)
	for _, l := range []*line{ahead, anew} {
		s := l.ending(l.claim, true)
		if !l.work.Foreseen(&s) {
			return errors.New("nothing was read ahead")
		}
		c.happen(l)
	}
	one, err := ahead.work.Settle(t.Context(), ahead.ending(ahead.claim, true))
	if err != nil {
		return err
	}
	other := anew.settle(anew.claim, false)
	for _, pair := range [][2]string{
		{fmt.Sprint(one.Applied), fmt.Sprint(other.Applied)},
		{number(one.Next), number(other.Next)},
		{ahead.standing(), anew.standing()},
		{contentOf(one.Next), contentOf(other.Next)},
		{c.next, number(other.Next)},
	} {
		if pair[0] != pair[1] {
			return fmt.Errorf("ahead it is\n%s\nand anew\n%s", pair[0], pair[1])
		}
	}
	return nil
}

// contentOf is what a claim says but for its ids and times.
func contentOf(c *inbox.Claim) string {
	if c == nil {
		return "none"
	}
	e := &c.Event
	return fmt.Sprint(c.RouteID, c.Attempt, c.Version, c.Trigger, c.Since.IsZero(), c.StartedAt.IsZero(), c.Key, c.Item, c.KeyHash, c.UnknownSince, c.Rendered,
		len(c.SequenceKeyHash), c.SequenceNumber, c.Late, e.Type, e.ReceivedAt.IsZero(), e.Traceparent, string(e.Body), e.BodyGone, e.GoneReason, string(e.Headers))
}

func number(c *inbox.Claim) string {
	if c == nil {
		return "none"
	}
	return c.SequenceNumber
}

// inBetween is what may happen between a claim and its end: whatever it is, a
// settlement that goes on by what was read ahead comes to the same as one that reads
// everything anew.
var inBetween = map[string]between{
	"nothing":                  {sequence.Policy{}, func(*line) {}, "7"},
	"more of the same":         {sequence.Policy{}, func(l *line) { l.arrive(10) }, "7"},
	"another with this number": {sequence.Policy{Ties: sequence.Apply}, func(l *line) { l.arrive(6) }, "6"},
	"a late one that may run":  {sequence.Policy{Late: sequence.LateApply}, func(l *line) { l.arrive(3) }, "3"},
	"one received earlier":     {sequence.Policy{Mode: sequence.Arrival}, func(l *line) { l.arrive(4) }, "4"},
	"the next one is settled": {sequence.Policy{}, func(l *line) {
		storetest.Exec(l.T, l.Pool, `UPDATE effect SET state = 'skipped', reason = 'discarded', next_at = NULL, finished_at = now() WHERE id = $1`, l.effectOf(7))
	}, "8"},
	"the next one is dead": {sequence.Policy{}, func(l *line) {
		storetest.Exec(l.T, l.Pool, `UPDATE effect SET state = 'dead', reason = 'status_4xx', next_at = NULL WHERE id = $1`, l.effectOf(7))
	}, "none"},
	"the next one is not due": {sequence.Policy{}, func(l *line) {
		storetest.Exec(l.T, l.Pool, `UPDATE effect SET state = 'retry', next_at = now() + interval '1 hour' WHERE id = $1`, l.effectOf(7))
	}, "none"},
	"the next one keeps its place in the queue": {sequence.Policy{}, func(l *line) {
		storetest.Exec(l.T, l.Pool, `UPDATE effect SET state = 'pending', next_at = now() WHERE id = $1`, l.effectOf(7))
	}, "none"},
	"the next one is taken no more": {sequence.Policy{}, func(l *line) {
		storetest.Exec(l.T, l.Pool, `UPDATE effect SET filtered = true WHERE id = $1`, l.effectOf(7))
	}, "8"},
	"the next one is a tie that is put aside": {sequence.Policy{OnGap: sequence.GapHold}, func(l *line) {
		storetest.Exec(l.T, l.Pool, `UPDATE effect SET state = 'held', reason = 'sequence_number_taken', next_at = NULL WHERE id = $1`, l.effectOf(7))
	}, "none"},
	"numbers were passed over": {sequence.Policy{}, func(l *line) { storetest.Exec(l.T, l.Pool, `UPDATE stream SET applied = 7 WHERE id = $1`, l.id) }, "8"},
	"another is in flight": {sequence.Policy{}, func(l *line) {
		storetest.Exec(l.T, l.Pool, `UPDATE effect SET state = 'claimed', lease_token = id, lease_until = now() + interval '1 hour', next_at = now() + interval '1 hour' WHERE id = $1`, l.effectOf(8))
		storetest.Exec(l.T, l.Pool, `UPDATE stream SET in_flight = $2 WHERE id = $1`, l.id, l.effectOf(8))
	}, "none"},
	"it seemed blocked": {sequence.Policy{}, func(l *line) {
		storetest.Exec(l.T, l.Pool, `UPDATE stream SET blocked_by = $2 WHERE id = $1`, l.id, l.effectOf(9))
	}, "7"},
	"a gap was seen": {sequence.Policy{}, func(l *line) {
		storetest.Exec(l.T, l.Pool, `UPDATE stream SET gap_since = now() WHERE id = $1`, l.id)
	}, "7"},
	"the claim is lost": {sequence.Policy{}, func(l *line) {
		storetest.Exec(l.T, l.Pool, `UPDATE effect SET lease_token = id WHERE id = $1`, l.effectOf(6))
	}, "none"},
}

func TestGoingOnAheadIsDecidingAnew(t *testing.T) {
	t.Parallel()
	b := newLineBook(t)
	for name, c := range inBetween {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := c.same(t, b, "", ""); err != nil {
				t.Error(err)
			}
		})
	}
}

// Each condition is there for something that may come in between.
func TestMuseumOfGoingOn(t *testing.T) {
	t.Parallel()
	b := newLineBook(t)
	const waits = "e.state = 'held'"
	for _, e := range []struct{ condition, instead, seenBy string }{
		{"s.in_flight = a.id", "true", "another is in flight"},
		{"s.applied IS NOT DISTINCT FROM nullif(a.applied, '')::numeric", "true", "numbers were passed over"},
		{"s.gap_since IS NULL", "true", "a gap was seen"},
		{"s.blocked_by IS NULL", "true", "it seemed blocked"},
		{waits, "true", "the next one is settled"},
		{waits, "e.state IN ('held', 'retry')", "the next one is not due"},
		{waits, "e.state IN ('held', 'pending')", "the next one keeps its place in the queue"},
		{"NOT e.filtered", "true", "the next one is taken no more"},
		{"e.reason IS DISTINCT FROM 'sequence_number_taken'", "true", "the next one is a tie that is put aside"},
		{"o.route_id = l.route_id", "false", "another with this number"},
		{"o.route_id = l.route_id", "false", "a late one that may run"},
		{"o.route_id = l.route_id", "false", "one received earlier"},
		{"e.lease_token = a.token", "true", "the claim is lost"},
	} {
		t.Run(e.condition+" "+e.instead+" "+e.seenBy, func(t *testing.T) {
			t.Parallel()
			c := inBetween[e.seenBy]
			err := c.same(t, b, e.condition, e.instead)
			if err == nil {
				t.Errorf("%q is not missed where %s", e.condition, e.seenBy)
			}
			t.Log(err)
		})
	}
}

// A body that has been moved since it was read ahead is read where it is now; one that
// is too long to be read ahead is read as well.
func TestBodiesReadAhead(t *testing.T) {
	t.Parallel()
	b := newLineBook(t)
	for name, c := range map[string]struct{ length, moved int }{"as read": {6, 0}, "moved": {6, 1}, "long": {10_000, 0}, "long and moved": {10_000, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, b, sequence.Policy{Mode: sequence.Contiguous, Start: "5"}, "", "")
			long := l.arrive(10)
			storetest.Exec(t, l.Pool, `UPDATE inbox_body SET body = $2 WHERE id = $1`, long, []byte(strings.Repeat("x", c.length)))
			storetest.Exec(t, l.Pool, `UPDATE inbox_event SET body_length = $2 WHERE id = $1`, long, c.length)
			storetest.Exec(t, l.Pool, `UPDATE stream SET gap_since = now() WHERE id = $1`, l.id) // so that it is read anew
			next := l.settle(l.claim, true).Next
			for range 2 {
				next = l.settle(next, true).Next
			}
			if c.moved > 0 {
				storetest.Exec(t, l.Pool, `UPDATE inbox_event SET class = 'kept' WHERE id = $1`, long)
				storetest.Exec(t, l.Pool, `UPDATE inbox_body SET class = 'kept', body = $2 WHERE id = $1`, long, []byte(strings.Repeat("y", c.length)))
			}
			s := l.ending(next, true)
			if number(next) != "9" || !l.work.Foreseen(&s) {
				t.Fatalf("at %s nothing was read ahead", number(next))
			}
			last := l.settle(next, true).Next
			if want := strings.Repeat([]string{"x", "y"}[c.moved], c.length); number(last) != "10" || string(last.Event.Body) != want || last.Event.BodyGone {
				t.Errorf("%s has a body of %d bytes: %.10q", number(last), len(last.Event.Body), last.Event.Body)
			}
			if s := l.ending(last, true); l.work.Foreseen(&s) {
				t.Error("something is foreseen behind the last one")
			}
			if out := l.settle(last, true); !out.Applied || out.Next != nil {
				t.Errorf("%+v", out)
			}
		})
	}
}
