package jobs_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs"
)

// patientWork replaces the bundle's pool by one whose connections wait for locks
// without an end, so that nothing but the code can keep anybody from waiting.
func (b *bundle) patientWork() {
	b.tb.Helper()
	cfg := b.work.Config()
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SET lock_timeout = 0")
		return err
	}
	pool, err := pgxpool.NewWithConfig(b.tb.Context(), cfg)
	if err != nil {
		b.tb.Fatal(err)
	}
	b.tb.Cleanup(pool.Close)
	b.work = pool
}

// stranger locks rows as a debugger in psql would, until it lets go.
func (b *bundle) stranger(sql string, args ...any) (letGo func()) {
	b.tb.Helper()
	conn, err := pgx.ConnectConfig(b.tb.Context(), b.pool.Config().ConnConfig)
	if err != nil {
		b.tb.Fatal(err)
	}
	let := sync.OnceFunc(func() { _ = conn.Close(context.WithoutCancel(b.tb.Context())) })
	b.tb.Cleanup(let)
	for _, statement := range []string{"SET application_name = 'a stranger'", "BEGIN"} {
		if _, err := conn.Exec(b.tb.Context(), statement); err != nil {
			b.tb.Fatal(err)
		}
	}
	if _, err := conn.Exec(b.tb.Context(), sql, args...); err != nil {
		b.tb.Fatal(err)
	}
	return let
}

func (b *bundle) lockStream(key string) (letGo func()) {
	b.tb.Helper()
	return b.stranger(`SELECT FROM stream WHERE key_label = $1 FOR UPDATE`, key)
}

// states counts how many of the effects are in a state.
func (b *bundle) states(ids []inbox.ID, state string) int {
	b.tb.Helper()
	return b.count(`SELECT count(*) FROM effect WHERE id = ANY ($1::uuid[]) AND state = $2`, ids, state)
}

var lockedModes = map[string]sequence.Policy{
	"contiguous": {Mode: sequence.Contiguous, Start: "1"}, "latest": {Mode: sequence.Latest}, "arrival": {Mode: sequence.Arrival},
}

// Promise 4: one locked stream never holds up another. Whatever is done to many
// streams, claims, settlements, chains, sweeps and checks of what is held, goes on for
// all but the one that a stranger has locked; and that one goes on when it is free.
func TestALockedStreamHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for mode, policy := range lockedModes {
		for _, route := range []string{repeatable, within} {
			t.Run(mode+"/"+route, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				b.patientWork()
				b.order = map[string]sequence.Policy{route: policy}
				locked := b.sequenced(route, "locked", "1", "2", "3")
				letGo := b.lockStream("locked")
				b.client(jobs.Config{SweepEvery: 100 * time.Millisecond})
				var others []inbox.ID
				for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
					others = append(others, b.sequenced(route, key, "1", "2", "3", "4", "5")...)
				}
				rest := func() bool { return b.states(others, "done")+b.states(others, "superseded") == len(others) }
				b.eventually("the other streams, while one is locked", rest)
				if n := b.states(locked, "pending"); n != len(locked) {
					t.Errorf("%d of %d effects of the locked stream are pending", n, len(locked))
				}
				letGo()
				b.eventually("the stream that was locked", func() bool {
					return b.states(locked, "done")+b.states(locked, "superseded") == len(locked)
				})
			})
		}
	}
}

// A settlement whose stream is locked holds up none of the others, and is not lost:
// it is made when the stream is free.
func TestALockedStreamHoldsUpNoSettlement(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.patientWork()
	b.order = map[string]sequence.Policy{repeatable: {Mode: sequence.Contiguous, Start: "1"}}
	store := b.store("node-1")
	keys := []string{"locked", "a", "b", "c", "d"}
	var claims []*inbox.Claim
	for _, key := range keys {
		claims = append(claims, b.claim(store, b.sequenced(repeatable, key, "1", "2")[0]))
	}
	letGo := b.lockStream("locked")
	var settling sync.WaitGroup
	for _, claim := range claims {
		settling.Go(func() { b.end(store, claim, inbox.EffectDone) })
	}
	b.eventually("the settlements of the other streams", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == len(keys)-1
	})
	if r := b.row(claims[0].Effect); r.State != "claimed" {
		t.Errorf("without its stream the effect is %+v", r)
	}
	letGo()
	settling.Wait()
	if r := b.row(claims[0].Effect); r.State != "done" {
		t.Errorf("the effect of the stream that was locked is %+v", r)
	}
}

// A settlement whose stream stays locked is given up when its time ends, and the
// effect is the sweeper's.
func TestASettlementOfALockedStreamEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.order = map[string]sequence.Policy{repeatable: {Mode: sequence.Contiguous, Start: "1"}}
	store := b.store("node-1")
	claim := b.claim(store, b.sequenced(repeatable, "locked", "1")[0])
	b.lockStream("locked")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := store.Settle(ctx, inbox.Settlement{
		Effect: claim.Effect, Token: claim.Token, State: inbox.EffectDone, Outcome: inbox.AttemptDone, Trigger: claim.Trigger,
		StartedAt: claim.StartedAt, RouteID: claim.RouteID, SequenceKeyHash: claim.SequenceKeyHash,
	})
	if !errors.Is(err, inbox.ErrLocked) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it ended with %v", err)
	}
}

// An effect's row that a stranger has locked holds up no other effect: neither of an
// unordered route nor another stream.
func TestALockedEffectHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]sequence.Policy{"unordered": {}, "contiguous": {Mode: sequence.Contiguous, Start: "1"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.patientWork()
			b.order = map[string]sequence.Policy{repeatable: order}
			store := b.store("node-1")
			var claims []*inbox.Claim
			for _, key := range []string{"locked", "a", "b", "c"} {
				claims = append(claims, b.claim(store, b.sequenced(repeatable, key, "1", "2")[0]))
			}
			letGo := b.stranger(`SELECT FROM effect WHERE id = $1 FOR UPDATE`, claims[0].Effect)
			started := make(chan error, len(claims))
			for _, claim := range claims[1:] {
				go func() {
					mine, err := store.StartSend(t.Context(), claim, inbox.SendStart{Rendered: []byte("rendered"), Began: true})
					if err == nil && !mine {
						err = errors.New("it was taken over")
					}
					started <- err
				}()
			}
			go func() {
				_, _ = store.StartSend(t.Context(), claims[0], inbox.SendStart{Rendered: []byte("rendered"), Began: true})
			}()
			for range claims[1:] {
				if err := <-started; err != nil {
					t.Fatal(err)
				}
			}
			var settling sync.WaitGroup
			for _, claim := range claims {
				settling.Go(func() { b.end(store, claim, inbox.EffectDone) })
			}
			b.eventually("the settlements of the others", func() bool {
				return b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == len(claims)-1
			})
			letGo()
			settling.Wait()
		})
	}
}

// A stream of which an effect is locked that is only to be moved, since it is next,
// waits by itself.
func TestALockedNextEffectHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.patientWork()
	b.order = map[string]sequence.Policy{repeatable: {Mode: sequence.Contiguous, Start: "1"}}
	store := b.store("node-1")
	var claims []*inbox.Claim
	var next []inbox.ID
	for _, key := range []string{"locked", "a", "b", "c"} {
		ids := b.sequenced(repeatable, key, "1", "2")
		claims = append(claims, b.claim(store, ids[0]))
		if b.try(store, ids[1]) != nil {
			t.Fatal("2 was claimed beside 1")
		}
		next = append(next, ids[1])
	}
	letGo := b.stranger(`SELECT FROM effect WHERE id = $1 FOR UPDATE`, next[0])
	var settling sync.WaitGroup
	for _, claim := range claims {
		settling.Go(func() { b.end(store, claim, inbox.EffectDone) })
	}
	b.eventually("the next effects of the others", func() bool { return b.states(next, "pending") == len(next)-1 })
	letGo()
	settling.Wait()
	if n := b.states(next, "pending"); n != len(next) {
		t.Errorf("%d of %d are set going", n, len(next))
	}
}

// Who keeps a stream locked is told, once a minute, by name.
func TestWhoLocksAStreamIsTold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.order = map[string]sequence.Policy{repeatable: {Mode: sequence.Contiguous, Start: "1"}}
	var mu sync.Mutex
	var told []inbox.LockedStream
	b.locked = func(_ context.Context, s inbox.LockedStream) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, s)
	}
	ids := b.sequenced(repeatable, "K-17", "1", "2")
	letGo := b.lockStream("K-17")
	b.client(jobs.Config{})
	get := func() []inbox.LockedStream {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(told)
	}
	b.eventually("that it is told", func() bool { return len(get()) > 0 })
	s := get()[0]
	if s.Source != "shop" || s.Route != repeatable || s.ID != int64(b.count(`SELECT id FROM stream WHERE key_label = $1`, "K-17")) || s.Backend == nil || s.Backend.Application != "a stranger" ||
		s.Backend.State != "idle in transaction" || s.Backend.PID == 0 || s.Backend.TransactionSince.IsZero() {
		t.Errorf("told %+v by %+v", s, s.Backend)
	}
	letGo()
	b.eventuallyState(ids[1], inbox.EffectDone)
	if n := len(get()); n != 1 {
		t.Errorf("told %d times", n)
	}
}

// What a vanished host had locked is free again after about a lease: the server ends
// its transaction.
func TestAVanishedHostLetsGoOfItsStreams(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.order = map[string]sequence.Policy{repeatable: {Mode: sequence.Contiguous, Start: "1"}}
	pool, err := session.OpenPool(t.Context(), b.pool.Config().ConnString(), b.schema, session.PoolWork, 1, session.VanishAfter(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	ids := b.sequenced(repeatable, "k", "1", "2")
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	if _, err := tx.Exec(t.Context(), `SELECT FROM stream FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	b.client(jobs.Config{}) // the transaction says nothing any more
	b.eventuallyState(ids[1], inbox.EffectDone)
}

// deadInStreams makes a dead effect in the stream of each key.
func (b *bundle) deadInStreams(keys ...string) (*inbox.Effects, []inbox.ID) {
	b.tb.Helper()
	b.order = map[string]sequence.Policy{repeatable: {Mode: sequence.Contiguous, Start: "1"}}
	store := b.store("node-1")
	dead := make([]inbox.ID, 0, len(keys))
	for _, key := range keys {
		id := b.sequenced(repeatable, key, "1")[0]
		b.end(store, b.try(store, id), inbox.EffectDead)
		dead = append(dead, id)
	}
	return store, dead
}

// A replay goes on with all but the stream that a stranger has locked, and comes back
// to that.
func TestALockedStreamHoldsUpNoReplay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.patientWork()
	store, dead := b.deadInStreams("locked", "a", "b", "c")
	r := b.replays(replay.Config{Store: store})
	p := plan(t, r, everything(), replay.Options{})
	letGo := b.lockStream("locked")
	start(t, r, p)
	b.client(jobs.Config{Store: store, Replays: r})
	b.eventually("the others", func() bool { return b.states(dead, "done") == len(dead)-1 })
	letGo()
	b.eventuallyState(dead[0], inbox.EffectDone)
	b.eventually("the replay's end", func() bool {
		p, err := r.Status(t.Context(), p.ID)
		return err == nil && p.State == replay.Done
	})
	if n := b.count(`SELECT count(*) FROM replay_outcome WHERE outcome = 'replayed'`); n != len(dead) {
		t.Errorf("%d of %d were replayed", n, len(dead))
	}
}

// Dead letters are discarded but for those of the stream that a stranger has locked,
// and the person is told what to do about it.
func TestALockedStreamHoldsUpNoDiscard(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.patientWork()
	_, dead := b.deadInStreams("locked", "a", "b", "c")
	b.lockStream("locked")
	out, err := decide.New(b.storeOn(b.work)).Discard(t.Context(), decide.Discard{IDs: dead, Actor: actor, Reason: why})
	if !errors.Is(err, inbox.ErrLocked) || out.Discarded != len(dead)-1 || b.states(dead, "skipped") != len(dead)-1 {
		t.Errorf("%+v, %v", out, err)
	}
}
