package crash_test

import (
	"context"
	"flag"
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/devpg/devpgtest"
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
	world, err := crash.NewWorld(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := world.Close(); err != nil {
			t.Error(err)
		}
	})
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
	if s := result.Summary; s.Acked < 10**cycles || s.Duplicates == 0 || s.Conflicts == 0 || s.Effects == 0 || *cycles >= 10 && s.Unanswered == 0 {
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
		if r.Summary.Acked < 40 {
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
				lost = acknowledgedInVain(r)
			}
			if lost == 0 {
				t.Error("not noticed: every acknowledged event is recorded")
			}
			t.Logf("noticed: %d acknowledged events are not recorded", lost)
		})
	}
}

// acknowledgedInVain counts the events that were answered 2xx and are not there.
func acknowledgedInVain(r *crash.Result) int {
	recorded := map[string]bool{}
	for _, row := range r.Database.Events {
		recorded[row.EventID] = true
	}
	lost := 0
	for id, e := range r.Sent {
		if e.Acked > 0 && !recorded[id] {
			lost++
		}
	}
	return lost
}

// mutant is damage done to the ledgers after a campaign that was in order.
type mutant struct {
	name string
	want rig.Kind
	// sql is run on the database, in a transaction that is rolled back. crash.victim is an event that was acknowledged
	// and forwarded.
	sql string
	// damage changes the ledgers of that event.
	damage func(sent *crash.SentEvent, calls *crash.Requests)
	// damageAll changes the target's whole ledger.
	damageAll func(sent map[string]crash.SentEvent, calls map[string]crash.Requests)
}

var mutants = []mutant{
	{name: "an acknowledged event vanishes", want: crash.Lost, sql: `
		DELETE FROM inbox_event WHERE event_id = current_setting('crash.victim')`},
	{name: "a transactional effect happens twice", want: crash.Doubled, sql: `
		INSERT INTO crash_applied SELECT * FROM crash_applied LIMIT 1`},
	{name: "a transactional effect is lost", want: crash.Lost, sql: `
		DELETE FROM crash_applied WHERE event_id = (SELECT event_id FROM crash_applied LIMIT 1)`},
	{name: "an effect is never finished", want: crash.Unfinished, sql: `
		UPDATE effect SET state = 'pending', finished_at = NULL, next_at = now() WHERE id = (SELECT id FROM effect WHERE state = 'done' LIMIT 1)`},
	{name: "a stored body changes", want: crash.Altered, sql: `
		UPDATE inbox_body SET body = overlay(body PLACING 'x' FROM 20) WHERE id = (SELECT body_id FROM inbox_event LIMIT 1)`},
	{name: "an event comes from nowhere", want: crash.Unexpected, sql: `
		UPDATE inbox_event SET event_id = 'evt_alien' WHERE id = (SELECT id FROM inbox_event LIMIT 1)`},
	{name: "an event is recorded twice", want: crash.Doubled, sql: `
		ALTER TABLE inbox_event DROP CONSTRAINT inbox_event_key, DROP CONSTRAINT inbox_event_pkey;
		INSERT INTO inbox_event SELECT * FROM inbox_event LIMIT 1`},
	{name: "an acknowledged conflicting payload is not kept", want: crash.Lost, sql: `
		DELETE FROM conflict WHERE event_id IN (SELECT event_id FROM conflict GROUP BY 1 HAVING count(*) < 5)`},
	{name: "a conflicting payload changes", want: crash.Altered, sql: `
		UPDATE conflict SET body = overlay(body PLACING 'x' FROM 20) WHERE id = (SELECT id FROM conflict LIMIT 1)`},
	{name: "a forward goes out under a second key", want: crash.Doubled, damage: func(_ *crash.SentEvent, calls *crash.Requests) {
		calls.Count++
		calls.Keys["another"]++
	}},
	{name: "a forward never went out", want: crash.Lost, damage: func(_ *crash.SentEvent, calls *crash.Requests) {
		*calls = crash.Requests{}
	}},
	{name: "a forward goes out with another body", want: crash.Altered, damage: func(_ *crash.SentEvent, calls *crash.Requests) {
		calls.Bodies[[32]byte{1}]++
	}},
	{name: "two deliveries are called the first", want: crash.Doubled, damage: func(sent *crash.SentEvent, _ *crash.Requests) {
		sent.Recorded = 2
	}},
	{name: "a duplicate of a key is applied", want: crash.Doubled, sql: `
		INSERT INTO crash_applied SELECT v.event_id, 'key' FROM effect e JOIN inbox_event v ON v.id = e.event_id WHERE e.state = 'duplicate' LIMIT 1`},
	{name: "two events of a key are forwarded", want: crash.Doubled, damageAll: func(sent map[string]crash.SentEvent, calls map[string]crash.Requests) {
		for id, e := range sent {
			for forwarded, requests := range calls {
				if id != forwarded && e.Acked > 0 && e.Order == sent[forwarded].Order { // what nobody acknowledged may not be recorded
					calls[id] = crash.Requests{Count: requests.Count, Keys: requests.Keys}
					return
				}
			}
		}
	}},
	{name: "a forged delivery is recorded", want: crash.Unexpected, damage: func(sent *crash.SentEvent, _ *crash.Requests) {
		sent.Forged = true
	}},
	{name: "a signed delivery is refused", want: crash.Misjudged, damage: func(sent *crash.SentEvent, _ *crash.Requests) {
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
	i := slices.IndexFunc(r.Database.Events, func(e crash.EventRow) bool {
		return r.Sent[e.EventID].Acked > 0 && r.Requests[e.EventID].Count > 0
	})
	if i < 0 {
		t.Fatal("no event was acknowledged and forwarded")
	}
	victim := r.Database.Events[i].EventID
	if m.sql != "" {
		if _, err := tx.Exec(t.Context(), "SELECT set_config('crash.victim', $1, true)", victim); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), m.sql); err != nil {
			t.Fatal(err)
		}
	}
	now, err := crash.Read(t.Context(), tx)
	if err != nil {
		t.Fatal(err)
	}
	sent, calls := maps.Clone(r.Sent), maps.Clone(r.Requests)
	if m.damage != nil {
		e := sent[victim]
		c := crash.Requests{Count: calls[victim].Count, Keys: maps.Clone(calls[victim].Keys), Bodies: maps.Clone(calls[victim].Bodies)}
		m.damage(&e, &c)
		sent[victim], calls[victim] = e, c
	}
	if m.damageAll != nil {
		m.damageAll(sent, calls)
	}
	found := crash.Check(sent, now, calls)
	if rig.CountKind(found, m.want) == 0 {
		t.Errorf("not noticed as %s; found %v", m.want, found)
	}
}
