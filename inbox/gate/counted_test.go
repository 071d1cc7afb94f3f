package gate_test

import (
	"maps"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/internal/session"
)

// Whoever counts deliveries is told of each recorded event once and in the minute of its id, also if another event of its
// delivery fails.
func TestCountedIsWhatIsRecorded(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolGate, 6)
	source := inboxtest.Source(t, pool, "shop")
	outcomes, minutes := map[inbox.Outcome]int{}, map[int64]int{}
	g, err := gate.New(gate.Config{
		Pool: pool, Enqueuer: storetest.Queue(), Clock: inboxtest.Clock(t, pool), GroupEvents: 4,
		Counted: func(_ *inbox.Admission, r *inbox.Receipt, at time.Time) {
			for i := range r.Items {
				outcomes[r.Items[i].Outcome]++
				if r.Items[i].Outcome == inbox.Recorded {
					minutes[at.Unix()/60]++
				}
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	accept := func(a *inbox.Admission, wantErr bool, want map[inbox.Outcome]int) {
		t.Helper()
		clear(outcomes)
		if _, err := g.Accept(t.Context(), a); (err != nil) != wantErr {
			t.Fatalf("the gate said %v", err)
		}
		if !maps.Equal(outcomes, want) {
			t.Errorf("%v were counted, want %v", outcomes, want)
		}
	}
	batch := inboxtest.Batch(source, "a", "b", "c", "d", "e", "f", "g")
	accept(inboxtest.AdmissionOf(source, "a", `{"other":1}`), false, map[inbox.Outcome]int{inbox.Recorded: 1})
	storetest.Exec(t, pool, `ALTER TABLE conflict RENAME TO conflict_away`)
	accept(batch, true, map[inbox.Outcome]int{inbox.Recorded: 6, "": 1})
	storetest.Exec(t, pool, `ALTER TABLE conflict_away RENAME TO conflict`)
	accept(batch, false, map[inbox.Outcome]int{inbox.Conflict: 1, inbox.Duplicate: 6})

	rows, err := pool.Query(t.Context(), `SELECT id FROM inbox_event`)
	if err != nil {
		t.Fatal(err)
	}
	want := map[int64]int{}
	var id inbox.ID
	if _, err := pgx.ForEachRow(rows, []any{&id}, func() error { want[id.Time().Unix()/60]++; return nil }); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(minutes, want) {
		t.Errorf("events were counted in the minutes %v, and their ids are of %v", minutes, want)
	}
}
