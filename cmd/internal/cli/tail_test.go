package cli_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/cmd/internal/cli"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/api"
	"github.com/oncegate/oncegate/internal/control"
)

const insertTailed = `
INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset, body_length, id_unsigned, suspected_replay)
VALUES ($1, $2, $3, 'test.happened', sha256(''), $4, 'ok', 'default', $1::uuid, 0, 0, 1, false, false)`

const insertTailedEffect = `
INSERT INTO effect (id, event_id, route_id, route_version, idempotency_key, state, next_at)
VALUES ($1, $2, $3, 1, gen_random_uuid()::text, 'pending', now())`

// tailed is a schema whose events a tail follows, with counts of what the tail has shown.
type tailed struct {
	pool    *pgxpool.Pool
	source  *inbox.Source
	caller  control.Caller
	events  map[string]int
	effects map[string]int
}

func newTailed(t *testing.T) *tailed {
	t.Helper()
	b := &tailed{pool: inboxtest.Pool(t), events: map[string]int{}, effects: map[string]int{}}
	b.source = inboxtest.Source(t, b.pool, "shop")
	service, err := control.NewService(control.Config{Pool: b.pool})
	if err != nil {
		t.Fatal(err)
	}
	b.caller = &control.Local{Service: service, Access: control.Everything("test")}
	return b
}

// atServer makes the tail use a server instead of the database.
func (b *tailed) atServer(t *testing.T) {
	t.Helper()
	service := b.caller.(*control.Local).Service
	handler, err := api.New(api.Config{Service: service, Logger: slog.New(slog.DiscardHandler), Authenticate: func(*http.Request) (control.Access, error) {
		return control.Everything("test"), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	b.caller = &api.Client{Server: server.URL, Token: "any", HTTP: &http.Client{Timeout: time.Minute}}
}

func (b *tailed) tail() *cli.Tail {
	return cli.NewTail(b.caller, "shop", func(row *read.EventRow) error {
		b.events[row.EventID]++
		return nil
	}, func(row *read.EffectRow) error {
		b.effects[row.EventID+" "+row.State]++
		return nil
	})
}

// add records an event and an effect with ids of the given time.
func (b *tailed) add(t *testing.T, tx pgx.Tx, name string, at time.Time) inbox.ID {
	t.Helper()
	id, effect := inbox.NewID(at), inbox.NewID(at)
	if _, err := tx.Exec(t.Context(), insertTailed, id, b.source.ID, name, at); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), insertTailedEffect, effect, id, b.source.Routes[0].ID); err != nil {
		t.Fatal(err)
	}
	return effect
}

func (b *tailed) begin(t *testing.T) pgx.Tx {
	t.Helper()
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // does nothing after a commit, so it matters only if the test fails
	return tx
}

// 2,000 events arrive in 100 seconds, according to their ids, and each of their transactions
// commits up to eight of these seconds late. The tail shows each event once, in any order of the
// commits, and each end of an effect once. The tail's memory does not grow.
func TestATailLosesNothingAndShowsNothingTwice(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(*tailed){"Database": func(*tailed) {}, "Server": func(b *tailed) { b.atServer(t) }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTailed(t)
			ask(b)
			random := rand.New(rand.NewPCG(1, 2))
			tail := b.tail()
			if err := tail.StartNow(t.Context()); err != nil {
				t.Fatal(err)
			}
			const seconds, each, lanes, deadline = 100, 20, 3, 8
			type lane struct {
				tx      pgx.Tx
				since   int
				effects []inbox.ID
			}
			open := make([]*lane, lanes)
			var going []inbox.ID
			base, n, kept := time.Now().Add(-time.Hour), 0, 0
			for second := range seconds + deadline + 1 {
				for range each {
					if second >= seconds {
						break
					}
					i := random.IntN(lanes)
					if open[i] == nil {
						open[i] = &lane{tx: b.begin(t), since: second}
					}
					at := base.Add(time.Duration(second)*time.Second + time.Duration(random.IntN(1000))*time.Millisecond)
					open[i].effects = append(open[i].effects, b.add(t, open[i].tx, fmt.Sprint("evt_", n), at))
					n++
				}
				for i, l := range open {
					if l == nil || second-l.since < deadline-1 && second < seconds && random.IntN(6) > 0 {
						continue
					}
					if err := l.tx.Commit(t.Context()); err != nil {
						t.Fatal(err)
					}
					going, open[i] = append(going, l.effects...), nil
				}
				if err := tail.Poll(t.Context()); err != nil {
					t.Fatal(err)
				}
				kept = max(kept, tail.Kept())
				if len(going) > 0 && random.IntN(2) == 0 {
					if _, err := b.pool.Exec(t.Context(), "UPDATE effect SET state = 'done', next_at = NULL, finished_at = now() WHERE id = ANY ($1)", going); err != nil {
						t.Fatal(err)
					}
					going = nil
				}
			}
			if _, err := b.pool.Exec(t.Context(), "UPDATE effect SET state = 'done', next_at = NULL, finished_at = now() WHERE state = 'pending'"); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := tail.Poll(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			for i := range seconds * each {
				name := fmt.Sprint("evt_", i)
				if b.events[name] != 1 || b.effects[name+" done"] != 1 {
					t.Fatalf("%s was shown %d times, the end of its effect %d times", name, b.events[name], b.effects[name+" done"])
				}
			}
			if most := 3 * 25 * each; kept > most {
				t.Errorf("it remembered %d ids, want at most %d", kept, most)
			}
		})
	}
}

func TestATailGoesOnFromItsCursor(t *testing.T) {
	t.Parallel()
	b := newTailed(t)
	base := time.Now().Add(-time.Hour)
	commit := func(at time.Time, names ...string) {
		tx := b.begin(t)
		for _, name := range names {
			b.add(t, tx, name, at)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	poll := func(tail *cli.Tail) {
		if err := tail.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	commit(base, "before")
	tail := b.tail()
	if err := tail.StartNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	commit(base.Add(-7*time.Second), "held back")
	commit(base.Add(time.Second), "a", "b")
	poll(tail)
	cursor, again := tail.Cursor()
	if again != 0 {
		t.Errorf("%d events are shown again", again)
	}
	commit(base.Add(-time.Second), "held back longer")
	commit(base.Add(2*time.Second), "c")
	next := b.tail()
	if !next.Resume(cursor) {
		t.Fatalf("%s is no cursor", cursor)
	}
	poll(next)
	for _, name := range []string{"held back", "a", "b", "held back longer", "c"} {
		if b.events[name] != 1 {
			t.Errorf("%s was shown %d times", name, b.events[name])
		}
	}
	if b.events["before"] != 0 {
		t.Error("what was recorded before was shown")
	}
	for _, text := range []string{"", "x", cursor + "A", "AAAA"} {
		if b.tail().Resume(text) {
			t.Errorf("%q is taken for a cursor", text)
		}
	}
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprint("many ", i))
	}
	commit(base.Add(3*time.Second), many...)
	poll(next)
	if _, again := next.Cursor(); again < 100 {
		t.Errorf("the cursor says that %d events are shown again, and names none of 100", again)
	}
}
