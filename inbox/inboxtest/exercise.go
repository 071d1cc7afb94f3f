package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/internal/session"
)

// Gate is the gate that [Exercise] tests: the real one, or one of the museum.
type Gate interface {
	Accept(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error)
}

// Bench is the environment of a gate under test.
type Bench struct {
	// Pool has unqualified access to a migrated schema.
	Pool *pgxpool.Pool
	// Acquire returns the connections that the gate must use; faults strike there.
	Acquire gate.Acquire
	Clock   *inbox.Clock
	Queue   inbox.Enqueuer
}

// Make builds a gate that is running, and registers its end with tb.
type Make func(tb testing.TB, b Bench) Gate

// TestNames are the names of the suite's tests.
func TestNames() []string {
	var names []string
	for name := range (&exercise{}).tests() {
		names = append(names, name)
	}
	return names
}

// Exercise runs one test of the suite, by its name.
func Exercise(tb testing.TB, name string, queue func() inbox.Enqueuer, newGate Make) {
	tb.Helper()
	e := &exercise{TB: tb, queue: queue, newGate: newGate}
	test, ok := e.tests()[name]
	if !ok {
		tb.Fatalf("the suite has no test %q", name)
	}
	e.run(name, test)
}

type exercise struct {
	testing.TB
	queue   func() inbox.Enqueuer
	newGate Make
}

func (e *exercise) tests() map[string]func(*bench) {
	return map[string]func(*bench){
		"a redelivery is a duplicate":                      redelivery,
		"the same id of two sources is two events":         twoSources,
		"another payload under the same id is a conflict":  conflicting,
		"a drifting field is no conflict":                  drifting,
		"identical deliveries at once are recorded once":   stampede,
		"a batch is recorded whole or not at all":          batches,
		"whatever call fails, nothing is lost or doubled":  faultSweep,
		"a commit whose answer is lost is still one event": lostAnswer,
		"overlapping groups do not deadlock":               overlap,
	}
}

func (e *exercise) run(name string, test func(*bench)) {
	e.Helper()
	b := newBench(e, name, &Fault{})
	test(b)
}

// bench is one schema with one gate on it.
type bench struct {
	testing.TB
	name   string
	e      *exercise
	url    string
	schema string
	pool   *pgxpool.Pool
	fault  *Fault
	gate   Gate
	source *inbox.Source
}

func newBench(e *exercise, name string, fault *Fault) *bench {
	url, schema := Schema(e.TB)
	b := &bench{TB: e.TB, name: name, e: e, url: url, schema: schema, pool: Open(e.TB, url, schema, session.PoolAdmin, 4)}
	b.source = Source(e.TB, b.pool, "stripe")
	b.build(fault)
	return b
}

// build puts a new gate with a new fault on the same schema.
func (b *bench) build(fault *Fault) {
	b.Helper()
	b.buildOn(Open(b.TB, b.url, b.schema, session.PoolGate, 16), fault)
}

// buildPatient is build with connections that wait a minute for a lock, where others give up after
// a second. PostgreSQL looks for deadlocks after a second as well: with the longer wait a deadlock
// is always reported as one, and a transaction that takes its time on a busy machine is not refused.
func (b *bench) buildPatient(fault *Fault) {
	b.Helper()
	config := Open(b.TB, b.url, b.schema, session.PoolGate, 16).Config()
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SET lock_timeout = '60s'")
		return err
	}
	pool, err := pgxpool.NewWithConfig(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	b.buildOn(pool, fault)
}

func (b *bench) buildOn(pool *pgxpool.Pool, fault *Fault) {
	b.Helper()
	b.fault = fault
	b.gate = b.e.newGate(b.TB, Bench{Pool: pool, Acquire: fault.Acquire(pool), Clock: Clock(b.TB, b.pool), Queue: b.e.queue()})
}

func (b *bench) errorf(format string, args ...any) {
	b.Helper()
	b.Errorf(b.name+": "+format, args...)
}

func (b *bench) accept(a *inbox.Admission) (inbox.Receipt, error) {
	return b.gate.Accept(b.Context(), a)
}

// expect delivers and fails unless the first event's outcome is want. An acknowledged event must be
// visible at once to another connection.
func (b *bench) expect(a *inbox.Admission, want inbox.Outcome) inbox.ID {
	b.Helper()
	receipt, err := b.accept(a)
	if err != nil {
		b.errorf("delivering %s: %v", a.Events[0].EventID, err)
		return inbox.ID{}
	}
	b.acknowledged(a, receipt)
	if got := receipt.Items[0].Outcome; got != want {
		b.errorf("%s was %s, want %s", a.Events[0].EventID, got, want)
	}
	return receipt.Items[0].ID
}

func (b *bench) acknowledged(a *inbox.Admission, receipt inbox.Receipt) {
	b.Helper()
	for i, event := range a.Events {
		var id inbox.ID
		if err := b.pool.QueryRow(context.WithoutCancel(b.Context()), `SELECT id FROM inbox_event WHERE source_id = $1 AND event_id = $2`,
			a.Source.ID, event.EventID).Scan(&id); err != nil {
			b.errorf("%s was acknowledged, but is not recorded: %v", event.EventID, err)
		} else if id != receipt.Items[i].ID {
			b.errorf("%s was acknowledged as %s, but is recorded as %s", event.EventID, receipt.Items[i].ID, id)
		}
	}
}

// complete fails unless the event is recorded once with its body, its effect
// and a job for it, all referring to each other.
func (b *bench) complete(source *inbox.Source, eventID string, body []byte) {
	b.Helper()
	const count = `
SELECT count(DISTINCT e.id), count(DISTINCT b.id) FILTER (WHERE substr(b.body, e.body_offset + 1, e.body_length) = $3),
    count(DISTINCT f.id), count(DISTINCT j.id), count(DISTINCT j.id) FILTER (WHERE j.id = f.job_id)
FROM inbox_event e
LEFT JOIN inbox_body b ON b.id = e.body_id
LEFT JOIN effect f ON f.event_id = e.id
LEFT JOIN river_job j ON j.args->>'effect' = f.id::text
WHERE e.source_id = $1 AND e.event_id = $2`
	var events, bodies, effects, jobs, matched int
	if err := b.pool.QueryRow(b.Context(), count, source.ID, eventID, body).Scan(&events, &bodies, &effects, &jobs, &matched); err != nil {
		b.errorf("counting %s: %v", eventID, err)
		return
	}
	if events != 1 || bodies != 1 || effects != 1 || jobs != 1 || matched != 1 {
		b.errorf("%s has %d events, %d bodies, %d effects, %d jobs (%d matching), want one of each", eventID, events, bodies, effects, jobs, matched)
	}
}

// nothingElse fails unless the schema contains exactly n events, effects and jobs.
func (b *bench) nothingElse(n int) {
	b.Helper()
	var events, effects, jobs int
	if err := b.pool.QueryRow(b.Context(), `SELECT (SELECT count(*) FROM inbox_event), (SELECT count(*) FROM effect), (SELECT count(*) FROM river_job)`).Scan(&events, &effects, &jobs); err != nil {
		b.errorf("counting: %v", err)
		return
	}
	if events != n || effects != n || jobs != n {
		b.errorf("there are %d events, %d effects and %d jobs, want %d of each", events, effects, jobs, n)
	}
}

func redelivery(b *bench) {
	a := Admission(b.source, "evt_1")
	first := b.expect(a, inbox.Recorded)
	b.complete(b.source, "evt_1", a.Body)
	if again := b.expect(Admission(b.source, "evt_1"), inbox.Duplicate); again != first {
		b.errorf("the duplicate was answered as %s, want %s", again, first)
	}
	b.complete(b.source, "evt_1", a.Body)
	b.nothingElse(1)
}

func twoSources(b *bench) {
	other := Source(b.TB, b.pool, "github")
	b.expect(Admission(b.source, "1"), inbox.Recorded)
	b.expect(Admission(other, "1"), inbox.Recorded)
	b.nothingElse(2)
}

func conflicting(b *bench) {
	first := AdmissionOf(b.source, "evt_1", `{"id":"evt_1","amount":1}`)
	b.expect(first, inbox.Recorded)
	receipt, err := b.accept(AdmissionOf(b.source, "evt_1", `{"id":"evt_1","amount":2}`))
	if err != nil {
		b.errorf("delivering: %v", err)
		return
	}
	item := receipt.Items[0]
	if item.Outcome != inbox.Conflict || len(item.Paths) != 1 || item.Paths[0] != "$.amount" {
		b.errorf("the outcome was %s with paths %v, want conflict with [$.amount]", item.Outcome, item.Paths)
	}
	b.complete(b.source, "evt_1", first.Body) // the first stays
	var conflicts, audits int
	if err := b.pool.QueryRow(b.Context(), `SELECT conflicts, (SELECT count(*) FROM audit WHERE action = 'conflict') FROM inbox_event`).Scan(&conflicts, &audits); err != nil || conflicts != 1 || audits != 1 {
		b.errorf("the row says %d conflicts, the audit %d (%v), want one each", conflicts, audits, err)
	}
}

func drifting(b *bench) {
	b.expect(AdmissionOf(b.source, "evt_1", `{"id":"evt_1","attempt":1}`), inbox.Recorded)
	b.expect(AdmissionOf(b.source, "evt_1", `{"id":"evt_1","attempt":2}`), inbox.Duplicate)
	b.nothingElse(1)
}

// stampede delivers one event many times at once. One round proves little, because a single warm
// connection may serve them in turn. So in every round all of them wait at the same barrier first,
// on connections already open.
func stampede(b *bench) {
	const rounds, width = 25, 24
	for round := range rounds {
		id := fmt.Sprintf("evt_%d", round)
		var (
			wg      sync.WaitGroup
			mu      sync.Mutex
			outcome = map[inbox.Outcome]int{}
			barrier = make(chan struct{})
		)
		for range width {
			wg.Go(func() {
				a := Admission(b.source, id)
				<-barrier
				receipt, err := b.accept(a)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					b.errorf("delivering %s: %v", id, err)
					return
				}
				outcome[receipt.Items[0].Outcome]++
			})
		}
		close(barrier)
		wg.Wait()
		if outcome[inbox.Recorded] != 1 || outcome[inbox.Duplicate] != width-1 {
			b.errorf("%s: the outcomes of %d deliveries were %v, want one recorded", id, width, outcome)
			return
		}
	}
	b.nothingElse(rounds)
	var deliveries int
	if err := b.pool.QueryRow(b.Context(), `SELECT min(deliveries) FROM inbox_event`).Scan(&deliveries); err != nil || deliveries < 2 {
		b.errorf("an event counts %d deliveries (%v), want more than one", deliveries, err)
	}
}

func batches(b *bench) {
	receipt, err := b.accept(Batch(b.source, "evt_3", "evt_1", "evt_2", "evt_1"))
	if err != nil {
		b.errorf("delivering a batch: %v", err)
		return
	}
	want := []inbox.Outcome{inbox.Recorded, inbox.Recorded, inbox.Recorded, inbox.Duplicate}
	for i, item := range receipt.Items {
		if item.Outcome != want[i] {
			b.errorf("item %d was %s, want %s", i, item.Outcome, want[i])
		}
	}
	b.complete(b.source, "evt_1", []byte(`{"id":"evt_1"}`))
	b.complete(b.source, "evt_2", []byte(`{"id":"evt_2"}`))
	b.nothingElse(3)
}

// faultSweep fails the n-th database call, before and after it takes effect,
// until a run has nothing left to fail.
func faultSweep(b *bench) {
	n := 0
	for _, after := range []bool{false, true} {
		for _, failure := range []error{ErrCut, ErrFatal} {
			for call := 1; ; call++ {
				n++
				b.build(&Fault{N: call, After: after, Err: failure})
				id := fmt.Sprintf("evt_%d", n)
				outcomes := b.untilAcknowledged(id)
				b.complete(b.source, id, Admission(b.source, id).Body)
				if outcomes[inbox.Recorded] > 1 {
					b.errorf("%s was answered as recorded %d times", id, outcomes[inbox.Recorded])
				}
				if !b.fault.Struck() {
					break
				}
				if call > 40 {
					b.errorf("the sweep does not end")
					return
				}
			}
		}
	}
	b.nothingElse(n)
}

// untilAcknowledged delivers as a sender does: again after each failure.
func (b *bench) untilAcknowledged(id string) map[inbox.Outcome]int {
	b.Helper()
	outcomes := map[inbox.Outcome]int{}
	for range 4 {
		a := Admission(b.source, id)
		receipt, err := b.accept(a)
		switch {
		case err == nil:
			b.acknowledged(a, receipt)
			outcomes[receipt.Items[0].Outcome]++
			return outcomes
		case !errors.Is(err, gate.ErrUnavailable):
			b.errorf("delivering %s gave %v, want an error that asks for another delivery", id, err)
			return outcomes
		}
	}
	b.errorf("%s was not acknowledged in four deliveries", id)
	return outcomes
}

// lostAnswer: the COMMIT takes effect, and its answer is a FATAL or a cut connection. The gate must
// find that out, and must answer "recorded" to the caller that recorded the event: with "duplicate"
// no caller would be the first.
func lostAnswer(b *bench) {
	for i, failure := range []error{ErrCut, ErrFatal} {
		b.build(&Fault{Commits: true, After: true, Err: failure})
		id := fmt.Sprintf("evt_%d", i)
		b.expect(Admission(b.source, id), inbox.Recorded)
		if !b.fault.Struck() {
			b.errorf("no COMMIT went through the connection")
		}
		if n := b.fault.Codes("23505"); n > 0 {
			b.errorf("after a lost answer the server refused %d statements, because they would have written something twice", n)
		}
		b.complete(b.source, id, Admission(b.source, id).Body)
	}
	b.nothingElse(2)
}

// overlap sends batches of the same ids in opposite orders at once. Without a common order of locks,
// two groups would wait for each other.
func overlap(b *bench) {
	const workers, rounds, width = 8, 12, 30
	b.buildPatient(&Fault{})
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for round := range rounds {
				ids := make([]string, width)
				for i := range ids {
					at := i
					if w%2 == 1 {
						at = width - 1 - i
					}
					ids[at] = fmt.Sprintf("evt_%d_%d", round, i)
				}
				if _, err := b.accept(Batch(b.source, ids...)); err != nil {
					b.errorf("delivering a batch: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := b.fault.Codes("40P01"); n > 0 {
		b.errorf("%d deadlocks", n)
	}
	b.nothingElse(rounds * width)
}
