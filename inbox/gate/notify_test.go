package gate_test

import (
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
)

// refusing is a queue whose notifications the server refuses, as it does when
// nobody has read them for long.
type refusing struct {
	inbox.Enqueuer
	notified *atomic.Int32
}

func (r refusing) Notify(b *pgx.Batch) {
	r.notified.Add(1)
	b.Queue("SELECT 1 / 0")
}

// The workers are notified behind the COMMIT: what becomes of that is nothing to
// the sender. The first duplicate after a new event notifies them for nothing, because the gate
// writes both before it knows; the next one does not.
func TestGateNotifiesBehindTheCommit(t *testing.T) {
	t.Parallel()
	queue := refusing{storetest.Queue(), new(atomic.Int32)}
	b := setup(t, func(cfg *gate.Config) { cfg.Enqueuer = queue })
	b.Start(t)
	for _, outcome := range []inbox.Outcome{inbox.Recorded, inbox.Duplicate, inbox.Duplicate, inbox.Duplicate} {
		receipt, err := b.Gate.Accept(t.Context(), inboxtest.Admission(b.Source, "evt_1"))
		if err != nil || receipt.Items[0].Outcome != outcome {
			t.Errorf("%+v, %v, want %s", receipt, err, outcome)
		}
	}
	if n := queue.notified.Load(); n != 2 {
		t.Errorf("notified %d times, want twice: duplicates have nothing for the workers", n)
	}
	var jobs int
	if err := b.Pool.QueryRow(t.Context(), `SELECT count(*) FROM river_job`).Scan(&jobs); err != nil || jobs != 1 {
		t.Errorf("%d jobs, %v", jobs, err)
	}
}
