package jobs_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/archive"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/objectstore"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// unplugged is a store whose reads fail while it is down.
type unplugged struct {
	archive.Store
	down atomic.Bool
}

func (u *unplugged) Read(ctx context.Context, name string, offset, length int64) ([]byte, error) {
	if u.down.Load() {
		return nil, errors.New("unplugged")
	}
	return u.Store.Read(ctx, name, offset, length)
}

// archived moves the body of an event into an archive and settles its effect as done.
func (b *bundle) archived(event inbox.ID) (*archive.Archive, *unplugged) {
	b.tb.Helper()
	store, err := objectstore.Open(objectstore.Config{URL: "file://" + b.tb.TempDir()})
	must(b.tb, err)
	u := &unplugged{Store: store}
	var asked atomic.Int64
	a, err := archive.New(archive.Config{
		Pool: b.pool, Store: u, IsMissing: func(err error) bool { return errors.Is(err, objectstore.ErrNotExist) },
		Now: func() time.Time { return time.Now().Add(time.Duration(asked.Add(1)) * time.Minute) }, // a failure is not remembered
	})
	must(b.tb, err)
	b.exec(`UPDATE inbox_event SET body_sha256 = sha256('{"paid":1}')`)
	b.exec(`UPDATE effect SET state = 'done', next_at = NULL, finished_at = now()`)
	b.exec(`DELETE FROM river_job`)
	line := archive.Line{Kind: archive.Body}
	must(b.tb, b.pool.QueryRow(b.tb.Context(), `SELECT b.id, b.headers, b.body FROM inbox_body b JOIN inbox_event e ON e.body_id = b.id WHERE e.id = $1`, event).
		Scan(&line.ID, &line.Headers, &line.Body))
	must(b.tb, pgx.BeginFunc(b.tb.Context(), b.pool, func(tx pgx.Tx) error {
		_, err := a.Write(b.tb.Context(), tx, archive.Target{Kind: archive.Body, Class: "default", First: line.ID, Last: line.ID},
			func(context.Context) ([]archive.Line, error) { return []archive.Line{line}, nil })
		return err
	}))
	b.exec(`DELETE FROM inbox_body`)
	return a, u
}

// TestReplayArchived: a replay sends exactly the archived body, at a target outside and inside the database. While the archive does
// not answer, the effect waits and uses no attempt.
func TestReplayArchived(t *testing.T) {
	t.Parallel()
	for _, route := range []string{repeatable, within} {
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.admit(route, 1)[0]
			a, store := b.archived(id)
			r := b.replays(replay.Config{Archive: a})
			p := plan(t, r, replay.Scope{IDs: []inbox.ID{id}}, replay.Options{IncludeDone: true, NewKey: true})
			start(t, r, p)
			run(t, r, p.ID)
			got := make(chan string, 10)
			store.down.Store(true)
			sender := &sink{idempotent: true, render: func(call *effect.Call) ([]byte, error) { got <- string(call.Event.Body); return nil, nil }}
			b.client(jobs.Config{
				Archive: a, Senders: map[string]effect.Sender{repeatable: sender},
				Transactionals: map[string]effect.Transactional{within: effect.HandlerFunc(func(_ context.Context, _ pgx.Tx, e effect.Event) error {
					got <- string(e.Body)
					return nil
				})},
			})
			b.eventually("the effect waits for the archive", func() bool {
				return b.count(`SELECT count(*) FROM effect WHERE state IN ('pending', 'retry') AND next_at > now() + interval '10 seconds'`) == 1
			})
			if n := b.count(`SELECT count(*) FROM effect_attempt WHERE version = 2`); n > 0 {
				t.Errorf("%d attempts without the body", n)
			}
			store.down.Store(false)
			b.eventually("the archive is asked again", func() bool {
				b.exec(`UPDATE effect SET next_at = now() WHERE state IN ('pending', 'retry')`)
				b.exec(`UPDATE river_job SET scheduled_at = now() WHERE state IN ('scheduled', 'available')`)
				return b.row(id).State == "done"
			})
			if body := <-got; body != `{"paid":1}` {
				t.Errorf("sent %q", body)
			}
		})
	}
}

// TestArchivedBodyThatIsAnother: a body that is not the recorded one makes a dead letter, and is never sent.
func TestArchivedBodyThatIsAnother(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.admit(repeatable, 1)[0]
	a, _ := b.archived(id)
	r := b.replays(replay.Config{Archive: a})
	p := plan(t, r, replay.Scope{IDs: []inbox.ID{id}}, replay.Options{IncludeDone: true, NewKey: true})
	start(t, r, p)
	run(t, r, p.ID)
	b.exec(`UPDATE inbox_event SET body_sha256 = sha256('x')`)
	b.client(jobs.Config{Archive: a})
	b.eventually("the effect is dead", func() bool { return b.row(id).State == "dead" })
	if got := b.row(id).Reason; got != string(reasons.ArchiveDamaged) {
		t.Errorf("the reason is %s", got)
	}
}
