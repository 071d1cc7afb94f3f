package jobs_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// process is a worker of a fleet, with its row in the table of processes.
type process struct {
	node   *node.Node
	client *jobs.Client
}

// process starts a worker that knows these routes and no others.
func (b *bundle) process(name string, routes []string, cfg jobs.Config) *process {
	b.tb.Helper()
	node, err := node.New(node.Config{Pool: b.pool, Name: name, Version: "1", Roles: []string{"work"}})
	if err != nil {
		b.tb.Fatal(err)
	}
	all, ids := b.routes, []int32{}
	known := map[string]int32{}
	cfg.Routes = map[int32]jobs.Route{}
	for _, name := range routes {
		known[name] = all[name]
		ids = append(ids, all[name])
		cfg.Routes[all[name]] = jobs.Route{Name: name, Source: "shop", Provider: "test", Target: name}
	}
	stored := map[int32]inbox.EffectRoute{}
	for id, r := range b.store(name).Routes() {
		if slices.Contains(ids, id) {
			stored[id] = r
		}
	}
	cfg.Store, err = inbox.NewEffects(inbox.EffectsConfig{Pool: b.work, Enqueuer: b.queue, Node: name, Routes: stored})
	if err != nil {
		b.tb.Fatal(err)
	}
	cfg.Peers = node.Peers()
	if cfg.SweepEvery == 0 {
		cfg.SweepEvery = 100 * time.Millisecond
	}
	p := &process{node: node, client: b.client(cfg)}
	if err := node.Work(b.tb.Context(), ids); err != nil {
		b.tb.Fatal(err)
	}
	return p
}

func (b *bundle) silence(p *process) {
	b.tb.Helper()
	b.exec(`UPDATE node SET heartbeat = now() - interval '31 s' WHERE id = $1`, p.node.ID())
}

// waits are how long the effects took from their recording to their end, in ms.
func (b *bundle) waits() (p50, p99, most float64) {
	b.tb.Helper()
	err := b.pool.QueryRow(b.tb.Context(), `
		SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY ms), percentile_cont(0.99) WITHIN GROUP (ORDER BY ms), max(ms)
		FROM (SELECT extract(epoch FROM f.finished_at - e.received_at)::float8 * 1000 AS ms FROM effect f JOIN inbox_event e ON e.id = f.event_id) AS w`).Scan(&p50, &p99, &most)
	if err != nil {
		b.tb.Fatal(err)
	}
	return p50, p99, most
}

// An effect is carried out soon, whichever process fetches its wake-up: in a rolling
// deploy, most of those of a new route waited for half a minute.
func TestAnEffectGoesToAProcessThatKnowsItsRoute(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := &sink{idempotent: true}
	var strays atomic.Int64
	b.process("old", []string{once, within}, jobs.Config{Observe: func(r jobs.Report) {
		if r.Reason == reasons.Route {
			strays.Add(1)
		}
	}})
	b.process("new", []string{once, within, repeatable}, jobs.Config{Senders: senders(target)})
	const n = 600
	var ids []inbox.ID
	for range n / 20 {
		ids = append(ids, b.admit(repeatable, 20)...)
	}
	b.eventually("all to be done", func() bool { return b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == n })
	p50, p99, most := b.waits()
	t.Logf("%d effects, %d of them fetched by the process that does not know the route: p50 %.0f ms, p99 %.0f ms, at most %.0f ms", n, strays.Load(), p50, p99, most)
	if strays.Load() == 0 {
		t.Error("nothing was handed over: the test says nothing")
	}
	if most > 15_000 {
		t.Errorf("one took %.0f ms", most)
	}
	if got := strays.Load(); got > n {
		t.Errorf("%d wake-ups were handed over for %d effects, want each once", got, n)
	}
	if got := b.count(`SELECT count(*) FROM effect WHERE attempts = 1 AND reason IS NULL`); got != n {
		t.Errorf("%d of %d needed one attempt", got, n)
	}
	for _, id := range ids {
		if target.got(id) != 1 {
			t.Errorf("%s was sent %d times", id, target.got(id))
		}
	}
}

// What a process meets while it still reads which processes know the route is handed over as well, and not put off.
func TestEffectsWaitForTheListOfProcesses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var strays atomic.Int64
	b.process("old", []string{once}, jobs.Config{MaxWorkers: 8, Observe: func(r jobs.Report) {
		if r.Reason == reasons.Route {
			strays.Add(1)
		}
	}})
	// It lives for the table of processes only: it fetches nothing.
	newer, err := node.New(node.Config{Pool: b.pool, Name: "new", Version: "1", Roles: []string{"work"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := newer.Work(t.Context(), []int32{b.routes[repeatable]}); err != nil {
		t.Fatal(err)
	}
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "LOCK TABLE node"); err != nil {
		t.Fatal(err)
	}
	b.admit(repeatable, 8)
	b.eventually("all are met", func() bool { return strays.Load() == 8 })
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.eventually("all are handed over", func() bool {
		return b.count(`SELECT count(*) FROM river_job WHERE kind LIKE 'effect/%' AND state = 'available'`) == 8
	})
	if got := strays.Load(); got != 8 {
		t.Errorf("%d wake-ups were met, want 8", got)
	}
}

// What was handed over to a process that dies goes back, and to the next one.
func TestNothingIsLostWithAProcessThatKnewTheRoute(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 50
	old := b.process("old", []string{once}, jobs.Config{})
	// It lives for the table of processes only: it fetches nothing.
	dead, err := node.New(node.Config{Pool: b.pool, Name: "dead", Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.Work(t.Context(), []int32{b.routes[repeatable]}); err != nil {
		t.Fatal(err)
	}
	ids := b.admit(repeatable, n)
	handed := `SELECT count(*) FROM river_job WHERE state = 'available' AND kind LIKE 'effect/%'`
	b.eventually("all to be handed over", func() bool { return b.count(handed) == n })
	before := b.text(`SELECT string_agg(r::text, ',' ORDER BY id) FROM river_job r`)
	b.eventually("the sweeper to have come by", func() bool { return b.count(`SELECT count(*) FROM effect WHERE next_at > now() - interval '1 s'`) == 0 })
	if b.text(`SELECT string_agg(r::text, ',' ORDER BY id) FROM river_job r`) != before {
		t.Error("while the process that knows the route lives, its wake-ups do not wait in peace")
	}
	b.silence(&process{node: dead})
	if _, err := old.node.Beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.eventually("all to be taken back and put off", func() bool {
		return b.count(handed) == 0 && b.count(`SELECT count(*) FROM effect WHERE reason = 'route_unknown' AND attempts = 0`) == n
	})
	target := &sink{idempotent: true}
	b.process("new", []string{once, repeatable}, jobs.Config{Senders: senders(target)})
	for _, id := range ids {
		b.eventuallyState(id, inbox.EffectDone)
		if target.got(id) != 1 {
			t.Errorf("%s was sent %d times", id, target.got(id))
		}
	}
}

// A wake-up waits for room at the process that knows the route: nobody turns it over
// meanwhile.
func TestWhatWasHandedOverWaitsForABusyProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	goOn := make(chan struct{})
	target := &sink{idempotent: true, answer: func(ctx context.Context, _ *effect.Call) effect.Result {
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		return effect.Result{Outcome: effect.Done, Code: "200"}
	}}
	var strays atomic.Int64
	b.process("old", []string{once}, jobs.Config{Observe: func(r jobs.Report) {
		if r.Reason == reasons.Route {
			strays.Add(1)
		}
	}})
	b.process("new", []string{once, repeatable}, jobs.Config{Senders: senders(target), MaxWorkers: 2})
	const n = 40
	ids := b.admit(repeatable, n)
	waiting := `SELECT count(*) FROM river_job WHERE state = 'available' AND kind LIKE 'effect/%'`
	b.eventually("all but two to wait", func() bool { return target.calls.Load() == 2 && b.count(waiting) == n-2 })
	turned := strays.Load()
	last := `SELECT coalesce(sum((metadata->>'snoozes')::int), 0) FROM river_job`
	snoozes := b.count(last)
	b.eventually("some sweeps", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE state = 'pending' AND next_at > now() - interval '2 s'`) == 0
	})
	if strays.Load() != turned || b.count(last) != snoozes {
		t.Errorf("they were turned over: %d, then %d", turned, strays.Load())
	}
	close(goOn)
	for _, id := range ids {
		b.eventuallyState(id, inbox.EffectDone)
	}
}

// The effects of a sequence keep their turns, whichever process fetches them.
func TestHandingOverKeepsTheOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.order = map[string]sequence.Policy{repeatable: {Mode: sequence.Contiguous, Start: "1"}}
	const n = 30
	numbers := make([]string, n)
	for i := range numbers {
		numbers[i] = strconv.Itoa(i + 1)
	}
	ids := b.sequenced(repeatable, "s", numbers...)
	var mu sync.Mutex
	var sent []string
	target := &sink{idempotent: true, answer: func(_ context.Context, call *effect.Call) effect.Result {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, call.Key)
		return effect.Result{Outcome: effect.Done, Code: "200"}
	}}
	b.process("old", []string{once}, jobs.Config{})
	b.process("new", []string{once, repeatable}, jobs.Config{Senders: senders(target)})
	for _, id := range ids {
		b.eventuallyState(id, inbox.EffectDone)
	}
	var want []string
	for _, id := range ids {
		want = append(want, "key-"+id.String())
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(sent, want) {
		t.Errorf("sent in the order %v, want %v", sent, want)
	}
}

// A process that takes deliveries and carries nothing out is handed nothing.
func TestNothingIsHandedToAProcessThatDoesNotWork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	gate, err := node.New(node.Config{Pool: b.pool, Name: "gate", Version: "2", Roles: []string{"receive"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gate.Beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.exec(`INSERT INTO node (id, name, version, roles, configuration, key_ids, key_fingerprints, started_at, heartbeat)
		VALUES (gen_random_uuid(), 'earlier', '0', '{work}', '', '{}', '{}', now(), now())`)
	b.process("old", []string{once}, jobs.Config{})
	b.admit(repeatable, 5)
	b.eventually("all to be put off", func() bool { return b.count(`SELECT count(*) FROM effect WHERE reason = 'route_unknown'`) == 5 })
	if got := b.count(`SELECT count(*) FROM river_job WHERE kind LIKE 'effect/%'`); got != 0 {
		t.Errorf("%d were handed over", got)
	}
}
