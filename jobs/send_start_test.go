package jobs_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// What was certainly not sent is not indeterminate: a worker that lives and whose
// connection breaks while it records the start of a send has sent nothing, whether or
// not the record was made, and the effect is sent once afterwards.
func TestASendWhoseStartWasNotRecordedIsMadeLater(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after bool  // the record is made, and its answer is lost
		away  int64 // how many connections are refused after that
	}{
		"the record is not made":                                {false, 0},
		"the answer is lost":                                    {true, 0},
		"the answer is lost, and the database is away":          {true, 3},
		"the record is not made, and the database is away":      {false, 3},
		"the answer is lost, and the database is away for long": {true, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.lease = 60 * time.Second
			var cut inboxtest.Cut
			var refused atomic.Int64
			like := b.work.Config()
			like.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
				if cut.Struck() && refused.Add(1) <= c.away {
					return errors.New("the database is away")
				}
				return nil
			}
			flaky, err := pgxpool.NewWithConfig(t.Context(), like)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(flaky.Close)
			b.work = cut.Pool(t, flaky)
			id := b.admit(once, 1)[0]
			var armed atomic.Bool
			// The next message that the store sends is the start of the send.
			s := &sink{render: func(*effect.Call) ([]byte, error) {
				if armed.CompareAndSwap(false, true) {
					cut.Arm(1, c.after)
				}
				return []byte("rendered"), nil
			}}
			b.client(jobs.Config{Senders: senders(s)})
			b.eventually("the cut", cut.Struck)
			b.eventuallyState(id, inbox.EffectDone)
			if got := s.got(id); got != 1 {
				t.Errorf("sent %d times, want once", got)
			}
			if got := b.outcomes(id); len(got) != 1 || got[0] != string(inbox.AttemptDone) || b.row(id).Attempts != 1 {
				t.Errorf("attempts %v, want one that is done", got)
			}
		})
	}
}

// Once the lease has ended nothing may be sent, also before the sweeper has come by:
// it may take the effect over at any moment, and nothing says that it did not.
func TestNoSendStartsAfterTheLeaseHasEnded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change string
		mine   bool
	}{
		"the lease holds":              {`UPDATE effect SET lease_until = now() + interval '1 min'`, true},
		"the lease has ended":          {`UPDATE effect SET lease_until = now() - interval '1 ms'`, false},
		"another worker has the lease": {`UPDATE effect SET lease_token = gen_random_uuid()`, false},
	} {
		for _, route := range []string{once, repeatable} {
			t.Run(name+"/"+route, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				store := b.store("node-1")
				claim := b.claim(store, b.admit(route, 1)[0])
				b.exec(c.change)
				mine, err := store.StartSend(t.Context(), claim, inbox.SendStart{Rendered: []byte("rendered"), Began: true})
				if err != nil || mine != c.mine {
					t.Errorf("mine %t, %v; want %t", mine, err, c.mine)
				}
				recorded := b.count(`SELECT count(*) FROM effect WHERE send_started_at IS NOT NULL OR rendered IS NOT NULL`)
				if (recorded == 1) != c.mine {
					t.Errorf("recorded %t, want %t", recorded == 1, c.mine)
				}
			})
		}
	}
}

// A worker whose lease ended while it prepared its request sends nothing.
func TestAWorkerWhoseLeaseEndedSendsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.admit(once, 1)[0]
	var rendered atomic.Int64
	s := &sink{render: func(*effect.Call) ([]byte, error) {
		if rendered.Add(1) == 1 {
			b.exec(`UPDATE effect SET lease_until = now() - interval '1 ms'`)
		}
		return []byte("rendered"), nil
	}}
	c := b.client(jobs.Config{Senders: senders(s)})
	b.eventually("the wake-up's end", func() bool { return b.count(`SELECT count(*) FROM river_job WHERE state <> 'completed'`) == 0 })
	b.stop(c)
	if s.calls.Load() != 0 || b.row(id).State != string(inbox.EffectClaimed) {
		t.Errorf("%d requests, the effect is %s; want none, and claimed until the sweeper comes", s.calls.Load(), b.row(id).State)
	}
}
