// Package jobstest tests the order of sequences on a real PostgreSQL. It delivers shuffled and
// repeated events to a gate, lets several nodes carry them out, kills nodes, and judges the result.
// Tests and scripts choose the sizes.
package jobstest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// Campaign is one trial. URL and Schema name a migrated schema that nothing else uses. URL, Schema,
// Keys and Events are required.
type Campaign struct {
	URL, Schema string

	// Keys is the number of sequences, Events the number of events in each.
	Keys, Events int

	// Window is how far from its place a number may be delivered. Duplicates is the fraction of
	// deliveries that are repeated.
	Window     int
	Duplicates float64

	// Ingesters is how many deliveries run at once. Nodes is how many clients stand for processes,
	// and Workers how many effects each carries out at once. They default to 8, 2 and 8.
	Ingesters, Nodes, Workers int

	// Kills is how many nodes are cut off from the database, one after the other, and replaced.
	// They never settle what they have claimed.
	Kills int

	// Takes, if set, selects the numbers that the route takes. The others only use up their number.
	Takes func(number int) bool

	// Slow, if set, selects the numbers that fail until SlowFor has passed since their first
	// attempt.
	Slow    func(number int) bool
	SlowFor time.Duration

	// AdmitFirst starts the nodes after everything is admitted, so that no number is ever missing.
	AdmitFirst bool

	// InDatabase acts by a handler in the database, exactly once. Otherwise effects go to a target
	// that deduplicates.
	InDatabase bool

	// Statement makes that handler a single statement, so that effects share transactions.
	Statement bool

	// Policy is the route's order. Its mode defaults to contiguous from 1.
	Policy sequence.Policy

	// Unlocked leaves the streams unlocked. The campaign must then fail.
	Unlocked bool

	// HoldFor is how much longer the transaction that puts an effect on hold takes, so that other
	// transactions settle what the effect waits for between its check and its commit.
	HoldFor time.Duration

	// Patience is how long nothing may happen before the remaining effects count as stuck. It
	// defaults to 15 s.
	Patience time.Duration

	Seed   uint64
	Logger *slog.Logger
}

// Report is the result of a campaign.
type Report struct {
	// Effects is how many effects were recorded, Applied how many numbers were applied.
	Effects, Applied int

	// Wrong lists what must not have happened: numbers out of order, twice, lost or stuck. It has
	// at most the first 20; Errors counts them all.
	Wrong  []string
	Errors int

	// Deadlocks counts those that the server reported. HeldRunnable are held effects that the
	// sweepers found free to run. Abandoned are gaps that were given up.
	Deadlocks               int
	HeldRunnable, Abandoned uint64

	// Held, Superseded, Late and Filtered are the stores' counters, summed over all nodes.
	Held, Superseded, Late, Filtered uint64

	// Admitted is how long the deliveries took, Elapsed how long everything did.
	Admitted, Elapsed time.Duration
}

// Err returns nil if the campaign found nothing wrong.
func (r *Report) Err() error {
	if r.Errors == 0 && r.Deadlocks == 0 && r.HeldRunnable == 0 {
		return nil
	}
	err := fmt.Errorf("%d errors, %d deadlocks, %d held effects found runnable", r.Errors, r.Deadlocks, r.HeldRunnable)
	for _, w := range r.Wrong {
		err = errors.Join(err, errors.New(w))
	}
	return err
}

const (
	campaignLease = 2 * time.Second
	campaignRoute = "ordered"
)

type campaign struct {
	Campaign
	admin  *pgxpool.Pool
	source *inbox.Source
	route  int32
	ledger ledger
	trace  tracer
	random *rand.Rand

	mu    sync.Mutex
	nodes []*node
	past  []*inbox.Effects // of all nodes, also of those killed
}

// Run runs the campaign to its end. The error means that the campaign could not run; its findings
// are in the report.
func (c Campaign) Run(ctx context.Context) (*Report, error) {
	r := &campaign{Campaign: c.withDefaults()}
	r.random = rand.New(rand.NewPCG(r.Seed, 1))
	admin, err := session.OpenPool(ctx, r.URL, r.Schema, session.PoolAdmin, 4)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	r.admin = admin
	if err := r.register(ctx); err != nil {
		return nil, err
	}
	if err := r.slowHolds(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	if !r.AdmitFirst {
		if err := r.startNodes(ctx); err != nil {
			return nil, err
		}
	}
	defer r.stopNodes()
	killed := r.killAll(ctx)
	if err := r.admit(ctx); err != nil {
		return nil, err
	}
	report := &Report{Admitted: time.Since(began)}
	if r.AdmitFirst {
		if err := r.startNodes(ctx); err != nil {
			return nil, err
		}
	}
	<-killed
	if err := r.settleDown(ctx); err != nil {
		return nil, err
	}
	report.Elapsed = time.Since(began)
	r.stopNodes()
	return report, r.judge(ctx, report)
}

const slowHolds = `
CREATE FUNCTION hold_slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(%f); RETURN NEW; END $$;
CREATE TRIGGER hold_slowly BEFORE UPDATE OF state ON effect FOR EACH ROW
WHEN (NEW.state = 'held' AND OLD.state <> 'held') EXECUTE FUNCTION hold_slowly()`

func (r *campaign) slowHolds(ctx context.Context) error {
	if r.HoldFor == 0 {
		return nil
	}
	if _, err := r.admin.Exec(ctx, fmt.Sprintf(slowHolds, r.HoldFor.Seconds())); err != nil {
		return fmt.Errorf("slowing holds down: %w", err)
	}
	return nil
}

func (c Campaign) withDefaults() Campaign {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	set(&c.Ingesters, 8)
	set(&c.Nodes, 2)
	set(&c.Workers, 8)
	if c.Policy.Mode == "" {
		c.Policy.Mode, c.Policy.Start = sequence.Contiguous, "1"
	}
	if c.Takes == nil {
		c.Takes = func(int) bool { return true }
	}
	if c.Slow == nil {
		c.Slow = func(int) bool { return false }
	}
	if c.Patience == 0 {
		c.Patience = 15 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

const appliedTable = `
CREATE TABLE applied (
    place     bigint GENERATED ALWAYS AS IDENTITY,
    key_name  text NOT NULL,
    number    int NOT NULL)`

func (c *campaign) register(ctx context.Context) error {
	if _, err := c.admin.Exec(ctx, appliedTable); err != nil {
		return err
	}
	if err := inbox.EnsurePartitions(ctx, c.admin, []string{"default"}, time.Now(), 1); err != nil {
		return err
	}
	kind := "forward"
	if c.InDatabase {
		kind = "handler"
	}
	registered, err := registry.Register(ctx, c.admin, []registry.Source{{
		Name: "orders", Provider: "test", Class: "default",
		Routes: []registry.Route{{Name: campaignRoute, Target: "sink", Kind: kind, Digest: []byte{1}}},
	}})
	if err != nil {
		return err
	}
	row := registered["orders"]
	c.route = row.Routes[campaignRoute].ID
	c.source = &inbox.Source{
		ID: row.ID, Name: "orders", Class: "default",
		Routes: []inbox.Route{{
			ID: c.route, Version: 1, Name: campaignRoute, Types: []string{"taken"}, Target: "sink", Kind: kind, Order: c.Policy,
		}},
	}
	return nil
}

// unsettled counts the effects that are not finished.
const unsettled = `SELECT count(*) FROM effect WHERE finished_at IS NULL`

// settleDown waits until everything is settled, or until nothing has happened for Patience. While the machine stands still, nobody
// else can have done anything either, so the time between two looks counts for half a second at most.
func (c *campaign) settleDown(ctx context.Context) error {
	left, looked, idle := -1, time.Now(), time.Duration(0)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var n int
		if err := c.admin.QueryRow(ctx, unsettled).Scan(&n); err != nil {
			return err
		}
		now := time.Now()
		if idle += min(now.Sub(looked), time.Second/2); n != left {
			idle = 0
		}
		if left, looked = n, now; n == 0 || idle > c.Patience {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// event is one delivery of the campaign.
type event struct{ key, number int }

func (e event) keyName() string { return fmt.Sprintf("order_%d", e.key) }

// deliveries returns all events in the order of their delivery, each within its key's window, some
// twice.
func (c *campaign) deliveries() []event {
	all := make([]event, 0, c.Keys*c.Events)
	for number := 1; number <= c.Events; number++ {
		for key := range c.Keys {
			all = append(all, event{key, number})
		}
	}
	if c.Window > 0 {
		for i := range all {
			if j := i + c.random.IntN(c.Window)*c.Keys; j < len(all) {
				all[i], all[j] = all[j], all[i]
			}
		}
	}
	var out []event
	for i, e := range all {
		out = append(out, e)
		if c.random.Float64() < c.Duplicates {
			out = append(out, all[c.random.IntN(i+1)])
		}
	}
	return out
}

func (c *campaign) admit(ctx context.Context) error {
	pool, err := session.OpenPool(ctx, c.URL, c.Schema, session.PoolGate, 6)
	if err != nil {
		return err
	}
	defer pool.Close()
	if pool, err = c.trace.pool(ctx, pool, nil); err != nil {
		return err
	}
	defer pool.Close()
	clock := inbox.NewClock(c.admin, time.Now)
	if err := clock.Start(ctx); err != nil {
		return err
	}
	defer clock.Stop()
	gate, err := gate.New(gate.Config{Pool: pool, Enqueuer: jobs.NewQueue(jobs.QueueConfig{}), Clock: clock, Logger: c.Logger})
	if err != nil {
		return err
	}
	if err := gate.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = gate.Stop(context.WithoutCancel(ctx)) }()
	feed := make(chan event)
	var ingesters sync.WaitGroup
	errs := make(chan error, c.Ingesters)
	for range c.Ingesters {
		ingesters.Go(func() {
			for e := range feed {
				if err := c.deliver(ctx, gate, e); err != nil {
					select {
					case errs <- err:
					default:
					}
				}
			}
		})
	}
	for _, e := range c.deliveries() {
		feed <- e
	}
	close(feed)
	ingesters.Wait()
	close(errs)
	return <-errs
}

func (c *campaign) deliver(ctx context.Context, gate *gate.Gate, e event) error {
	body := []byte(fmt.Sprintf(`{"key":%q,"number":%d}`, e.keyName(), e.number))
	kind := "taken"
	if !c.Takes(e.number) {
		kind = "left"
	}
	_, err := gate.Accept(ctx, &inbox.Admission{
		Source: c.source, Body: body, Headers: []byte(`{}`), ReceivedAt: time.Now(),
		Events: []inbox.NewEvent{{
			EventID: fmt.Sprintf("%s/%d", e.keyName(), e.number), Type: kind, Length: len(body),
			SequenceKey: e.keyName(), SequenceNumber: fmt.Sprint(e.number),
		}},
	})
	return err
}

// attempt returns the event and the result that both kinds report.
func (c *campaign) attempt(e *effect.Event) (event, effect.Result) {
	at, err := parseEvent(e.Body)
	if err != nil {
		return at, effect.Result{Outcome: effect.Dead, Reason: reasons.Handler}
	}
	if c.Slow(at.number) && c.ledger.since(at) < c.SlowFor {
		return at, effect.Result{Outcome: effect.Retry, Reason: reasons.Timeout}
	}
	return at, effect.Result{Outcome: effect.Done}
}

// target deduplicates by key and records the attempts that begin.
type target struct{ c *campaign }

func (target) Render(*effect.Call) ([]byte, error) { return nil, nil }
func (target) Idempotent() bool                    { return true }

func (t target) Send(_ context.Context, call *effect.Call) effect.Result {
	at, r := t.c.attempt(&call.Event)
	t.c.ledger.begins(at)
	return r
}

// inside acts in the database.
type inside struct{ c *campaign }

const insertApplied = `INSERT INTO applied (key_name, number) VALUES ($1, $2)`

func (h inside) Act(ctx context.Context, tx pgx.Tx, call *effect.Call) effect.Result {
	args, failure := h.arguments(call)
	if failure != nil {
		return *failure
	}
	if _, err := tx.Exec(ctx, insertApplied, args...); err != nil {
		return effect.SQLFailure(err)
	}
	return effect.Result{Outcome: effect.Done}
}

func (h inside) arguments(call *effect.Call) (args []any, failure *effect.Result) {
	at, r := h.c.attempt(&call.Event)
	h.c.ledger.begins(at)
	if r.Outcome != effect.Done {
		return nil, &r
	}
	return []any{at.keyName(), at.number}, nil
}

// statement does the same as inside in a single statement, so that effects of several sequences
// share a transaction.
type statement struct{ inside }

func (statement) Statement() string { return insertApplied }

func (s statement) Arguments(call *effect.Call) ([]any, *effect.Result) { return s.arguments(call) }
