package crash_test

import (
	"context"
	"flag"
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/devpg/devpgtest"
	"github.com/oncegate/oncegate/internal/drill/invariant"
	"github.com/oncegate/oncegate/internal/drill/ledger"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/crash"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

var (
	cycles = flag.Int("cycles", 25, "how often something is killed")
	seed   = flag.Uint64("seed", 0, "of the schedule; 0 draws one")
	pooler = flag.Bool("pooler", false, "through a PgBouncer in session mode")
)

// TestCrash is one test because its parts share a PostgreSQL that each of them
// may kill.
func TestCrash(t *testing.T) { //nolint:paralleltest // it needs the machine for itself
	world := lab.TestWorld(t, crash.World)
	*seed = rig.DrawSeed(*seed)

	result, err := crash.Run(lab.TestContext(t), world, crash.Options{Cycles: *cycles, Seed: *seed, Pooler: *pooler, Progress: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(result.Summary.String())
	for _, line := range rig.List(result.Violations) {
		t.Error(line)
	}
	if t.Failed() {
		return
	}
	if s := result.Summary; s.Sent.Acknowledged < 10**cycles || s.Sent.Duplicates == 0 || s.Sent.Conflicts == 0 || s.Effects == 0 || *cycles >= 10 && s.Sent.Unanswered == 0 {
		t.Errorf("too little happened to prove anything: %s", s.String())
	}

	// The database commits without waiting for the disk, and the pooler drops what a client asks
	// for in its startup message: whoever asks only there loses what was acknowledged.
	t.Run("nothing is lost behind a pooler", func(t *testing.T) {
		devpgtest.NeedPooler(t)
		r, err := crash.Run(lab.TestContext(t), world, crash.Options{Cycles: 4, Seed: *seed, Pooler: true, KillPostgresOnly: true, Progress: t.Logf})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(r.Summary.String())
		for _, v := range r.Violations {
			t.Error(v)
		}
		if r.Summary.Sent.Acknowledged < 40 {
			t.Errorf("too little happened to prove anything: %s", r.Summary.String())
		}
	})

	// A checker that has never been seen to fail proves nothing.
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			db, err := world.Connect(t.Context(), result.Schema)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close(context.Background()) })
			noticed(t, m, result, db)
		})
	}
	for _, wrong := range []crash.Defect{crash.AckBeforeCommit, crash.AsynchronousCommit} { //nolint:paralleltest // as above
		t.Run(string(wrong), func(t *testing.T) {
			// A kill need not hit a moment at which something is at stake, so a campaign
			// that lost nothing is followed by another.
			lost := 0
			for try := uint64(0); lost == 0 && try < 5; try++ {
				r, err := crash.Run(lab.TestContext(t), world, crash.Options{Cycles: 2, Seed: *seed + try, Defect: wrong})
				if err != nil {
					t.Fatal(err)
				}
				lost = rig.CountKind(r.Violations, invariant.Recorded)
			}
			if lost == 0 {
				t.Error("not noticed: every acknowledged event is recorded")
			}
			t.Logf("noticed: %d acknowledged events are not recorded", lost)
		})
	}
}

// mutant is damage done to the ledgers after a campaign that was in order.
type mutant struct {
	name string
	want rig.Kind
	// sql is run on the database, in a transaction that is rolled back. crash.victim is an event that was acknowledged
	// and forwarded.
	sql string
	// damage changes the ledgers of that event.
	damage func(sent *ledger.Event, calls *ledger.Requests)
	// damageAll changes the target's whole ledger.
	damageAll func(sent map[string]ledger.Event, calls map[string]ledger.Requests)
}

var mutants = []mutant{
	{name: "an acknowledged event vanishes", want: invariant.Recorded, sql: `
		DELETE FROM inbox_event WHERE event_id = current_setting('crash.victim')`},
	{name: "a transactional effect happens twice", want: invariant.ExactlyOnce, sql: `
		INSERT INTO drill_applied (route, event_id, stream, number) SELECT route, event_id, stream, number FROM drill_applied LIMIT 1`},
	{name: "a transactional effect is lost", want: invariant.ExactlyOnce, sql: `
		DELETE FROM drill_applied WHERE event_id = (SELECT event_id FROM drill_applied LIMIT 1)`},
	{name: "an effect is never finished", want: invariant.Settled, sql: `
		UPDATE effect SET state = 'pending', finished_at = NULL, next_at = now() WHERE id = (SELECT id FROM effect WHERE state = 'done' LIMIT 1)`},
	{name: "a stored body changes", want: invariant.Recorded, sql: `
		UPDATE inbox_body SET body = overlay(body PLACING 'x' FROM 20) WHERE id = (SELECT body_id FROM inbox_event LIMIT 1)`},
	{name: "an event comes from nowhere", want: invariant.Authentic, sql: `
		UPDATE inbox_event SET event_id = 'evt_alien' WHERE id = (SELECT id FROM inbox_event LIMIT 1)`},
	{name: "an event is recorded twice", want: invariant.RecordedOnce, sql: `
		ALTER TABLE inbox_event DROP CONSTRAINT inbox_event_key, DROP CONSTRAINT inbox_event_pkey;
		INSERT INTO inbox_event SELECT * FROM inbox_event LIMIT 1`},
	{name: "an acknowledged conflicting payload is not kept", want: invariant.ConflictKept, sql: `
		DELETE FROM conflict WHERE event_id IN (SELECT event_id FROM conflict GROUP BY 1 HAVING count(*) < 5)`},
	{name: "a conflicting payload changes", want: invariant.ConflictKept, sql: `
		UPDATE conflict SET body = overlay(body PLACING 'x' FROM 20) WHERE id = (SELECT id FROM conflict LIMIT 1)`},
	{name: "a forward goes out under a second key", want: invariant.OneKey, damage: func(_ *ledger.Event, calls *ledger.Requests) {
		calls.Complete++
		calls.Keys["another"]++
	}},
	{name: "a forward never went out", want: invariant.OneKey, damage: func(_ *ledger.Event, calls *ledger.Requests) {
		*calls = ledger.Requests{}
	}},
	{name: "a forward goes out with another body", want: invariant.OneKey, damage: func(_ *ledger.Event, calls *ledger.Requests) {
		calls.Bodies[[32]byte{1}]++
	}},
	{name: "two deliveries are called the first", want: invariant.RecordedOnce, damage: func(sent *ledger.Event, _ *ledger.Requests) {
		sent.Recorded = 2
	}},
	{name: "a duplicate of a key is applied", want: invariant.ExactlyOnce, sql: `
		INSERT INTO drill_applied (route, event_id, stream, number) SELECT 'table', v.event_id, '', 0 FROM effect e JOIN inbox_event v ON v.id = e.event_id WHERE e.state = 'duplicate' LIMIT 1`},
	{name: "two events of a key are forwarded", want: invariant.OneOwner, damageAll: func(sent map[string]ledger.Event, calls map[string]ledger.Requests) {
		for id, e := range sent {
			for forwarded, requests := range calls {
				if id != forwarded && e.Acked > 0 && e.Subject == sent[forwarded].Subject { // what nobody acknowledged may not be recorded
					calls[id] = requests
					return
				}
			}
		}
	}},
	{name: "a forged delivery is recorded", want: invariant.Authentic, damage: func(sent *ledger.Event, _ *ledger.Requests) {
		sent.Forged = true
	}},
	{name: "a signed delivery is refused", want: invariant.Answered, damage: func(sent *ledger.Event, _ *ledger.Requests) {
		sent.Refused = 1
	}},
}

// noticed does the damage, checks, and undoes it.
func noticed(t *testing.T, m mutant, r *crash.Result, db *pgx.Conn) {
	t.Helper()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context())) // the damage is never kept
	// The first event of all may have had no answer, because the binary was killed, and its forward may be the duplicate
	// of another event's.
	events, requests := r.Evidence.Events, r.Evidence.Routes[0].Requests
	i := slices.IndexFunc(events, func(e invariant.Event) bool {
		return r.Evidence.Sent[e.EventID].Acked > 0 && requests[e.EventID].Complete > 0
	})
	if i < 0 {
		t.Fatal("no event was acknowledged and forwarded")
	}
	victim := events[i].EventID
	if m.sql != "" {
		if _, err := tx.Exec(t.Context(), "SELECT set_config('crash.victim', $1, true)", victim); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), m.sql); err != nil {
			t.Fatal(err)
		}
	}
	damaged := &invariant.Evidence{Sent: maps.Clone(r.Evidence.Sent), Routes: slices.Clone(r.Evidence.Routes)}
	if damaged.Stored, err = invariant.Read(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	calls := maps.Clone(requests)
	damaged.Routes[0].Requests = calls
	if m.damage != nil {
		e, c := damaged.Sent[victim], calls[victim].Clone()
		m.damage(&e, &c)
		damaged.Sent[victim], calls[victim] = e, c
	}
	if m.damageAll != nil {
		m.damageAll(damaged.Sent, calls)
	}
	found := invariant.Violations(invariant.Check(damaged))
	if rig.CountKind(found, m.want) == 0 {
		t.Errorf("not noticed as %s; found %v", m.want, found)
	}
}
