package decide_test

import (
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
)

// A sender that has a secret and whose payloads drift fills no disk: its conflicts are
// counted, and audited once an event and hour.
func TestConflictsOfAnHourAreAuditedOnce(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	p.Accept(t, inboxtest.AdmissionOf(p.Source, "evt_1", payload("evt_1", 0)), 0)
	began := time.Now().UTC().Truncate(time.Hour)
	const n = 40
	conflict := func(i int) {
		receipt, err := p.Gate.Accept(t.Context(), inboxtest.AdmissionOf(p.Source, "evt_1", payload("evt_1", i)))
		if err != nil || receipt.Items[0].Outcome != inbox.Conflict {
			t.Errorf("%+v, %v", receipt, err)
		}
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { conflict(i + 1) })
	}
	wg.Wait()
	audited := func() int { return p.Count(t, `SELECT count(*) FROM audit WHERE action = 'conflict'`) }
	hours := 1 + int(time.Now().UTC().Truncate(time.Hour).Sub(began)/time.Hour) // the test may run over the end of one
	if got := audited(); got < 1 || got > hours {
		t.Errorf("%d conflicts of one event have %d rows in the audit, want %d", n, got, hours)
	}
	if got := p.Count(t, `SELECT conflicts FROM inbox_event WHERE event_id = 'evt_1'`); got != n {
		t.Errorf("%d are counted, want %d", got, n)
	}
	before := audited()
	if _, err := p.Pool.Exec(t.Context(), `UPDATE inbox_event SET conflict_at = conflict_at - interval '1 h'`); err != nil {
		t.Fatal(err)
	}
	conflict(n + 1)
	if got := audited(); got != before+1 {
		t.Errorf("an hour later the audit has %d rows, want %d", got, before+1)
	}
	if got := p.Count(t, `SELECT max((after->>'conflicts')::int) FROM audit WHERE action = 'conflict'`); got != n+1 {
		t.Errorf("the entry says %d conflicts until then, want %d", got, n+1)
	}
}
