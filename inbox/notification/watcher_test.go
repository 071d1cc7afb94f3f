package notification_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/attention"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/notification"
	"github.com/oncegate/oncegate/internal/session"
)

const source = `INSERT INTO source (name, provider, class, tenant, emit) VALUES ('ops', 'generic', 'default', '', true)`

type stand struct {
	*testing.T
	pool *pgxpool.Pool
}

func setup(t *testing.T) *stand {
	t.Helper()
	url, schema := inboxtest.Schema(t)
	s := &stand{T: t, pool: inboxtest.Open(t, url, schema, session.PoolAdmin, 8)}
	storetest.Exec(t, s.pool, source)
	return s
}

// watcher looks whenever it is asked, and waits for nothing.
func (s *stand) watcher(change func(*notification.Config)) *notification.Watcher {
	s.Helper()
	reader, err := attention.New(attention.Config{Pool: s.pool})
	if err != nil {
		s.Fatal(err)
	}
	cfg := notification.Config{Pool: s.pool, Reader: reader, Source: "ops", Every: time.Microsecond, Fold: time.Microsecond, Settle: time.Microsecond}
	if change != nil {
		change(&cfg)
	}
	w, err := notification.New(cfg)
	if err != nil {
		s.Fatal(err)
	}
	return w
}

func (s *stand) look(w *notification.Watcher, want int) {
	s.Helper()
	if n, err := w.Look(s.Context()); err != nil || n != want {
		s.Fatalf("the look emitted %d messages and %v, want %d", n, err, want)
	}
}

// open returns the open things.
func (s *stand) open() []notification.Open {
	s.Helper()
	open, err := notification.List(s.Context(), s.pool)
	if err != nil {
		s.Fatal(err)
	}
	return open
}

// emitted returns the types and the titles of the messages, in their order.
func (s *stand) emitted() string {
	s.Helper()
	rows, err := s.pool.Query(s.Context(), `SELECT type, convert_from(payload, 'UTF8')::jsonb->>'title', event_id FROM outbox ORDER BY id`)
	if err != nil {
		s.Fatal(err)
	}
	var all []string
	var kind, title, id string
	if _, err = pgx.ForEachRow(rows, []any{&kind, &title, &id}, func() error {
		if !strings.HasPrefix(id, kind+"/20") {
			s.Errorf("a message of type %s has the event id %s", kind, id)
		}
		all = append(all, kind+": "+title)
		return nil
	}); err != nil {
		s.Fatal(err)
	}
	return strings.Join(all, "\n")
}

const (
	pause  = `INSERT INTO pause (target, actor, reason, paused_at) VALUES ('psp', 'ann', 'a repair', '2026-11-27 16:54Z')`
	resume = `DELETE FROM pause`
	words  = "target psp is paused since 2026-11-27 16:54 UTC by ann: a repair"
)

// An operator is told once when something begins to wait and once when it is over, also by a process that has just started.
func TestAnOperatorIsToldOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	w := s.watcher(nil)
	s.look(w, 0)
	storetest.Exec(t, s.pool, pause)
	s.look(w, 0) // sees it
	s.look(w, 1)
	s.look(s.watcher(nil), 0)
	storetest.Exec(t, s.pool, resume)
	s.look(w, 0) // sees that it is gone
	s.look(w, 1)
	s.look(w, 0)
	if got, want := s.emitted(), "attention.opened: An operator is needed: "+words+"\nattention.resolved: Over: "+words; got != want {
		t.Errorf("the messages are\n%s\nwant\n%s", got, want)
	}
}

// Processes that look at the same time tell it once.
func TestProcessesTellOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	storetest.Exec(t, s.pool, pause)
	var all sync.WaitGroup
	for range 6 {
		w := s.watcher(nil)
		all.Go(func() {
			for range 20 {
				if _, err := w.Look(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got, want := s.emitted(), "attention.opened: An operator is needed: "+words; got != want {
		t.Errorf("the messages are\n%s\nwant\n%s", got, want)
	}
}

// A process that looked before another one, and writes after it, changes nothing: what it saw is out of date.
func TestALookThatIsOvertakenChangesNothing(t *testing.T) {
	t.Parallel()
	s := setup(t)
	w := s.watcher(nil)
	storetest.Exec(t, s.pool, pause)
	s.look(w, 0)
	// Its read waits for the lock, and its write comes after the look of another process.
	lock, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), `LOCK TABLE pause`); err != nil {
		t.Fatal(err)
	}
	slow := make(chan int, 1)
	go func() {
		n, err := w.Look(t.Context())
		if err != nil {
			t.Error(err)
		}
		slow <- n
	}()
	inboxtest.Until(t, "the look to wait for the lock", func() bool {
		var n int
		if err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'pause'::regclass`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
	if _, err := lock.Exec(t.Context(), `UPDATE notification_look SET looked_at = now()`); err != nil {
		t.Fatal(err)
	}
	if err := lock.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := <-slow; n != 0 || s.emitted() != "" {
		t.Errorf("the overtaken look emitted %d messages: %s", n, s.emitted())
	}
}

// The digest comes once a day, at its time, whether or not something waits.
func TestTheDigestComesOnceADay(t *testing.T) {
	t.Parallel()
	s := setup(t)
	midnight := time.Duration(0)
	w := s.watcher(func(c *notification.Config) { c.Digest = &midnight })
	s.look(w, 0) // an installation that has just begun has nothing to tell
	storetest.Exec(t, s.pool, `UPDATE notification_look SET digest_at = now() - interval '25 hours'`)
	s.look(w, 1)
	s.look(w, 0)
	storetest.Exec(t, s.pool, pause)
	s.look(w, 0)
	s.look(w, 1)
	storetest.Exec(t, s.pool, `UPDATE notification_look SET digest_at = digest_at - interval '1 day'`)
	s.look(w, 1)
	storetest.Exec(t, s.pool, `UPDATE notification_look SET digest_at = now() + interval '3 days'`) // the clock was set back
	s.look(w, 1)
	s.look(w, 0)
	want := "attention.digest: Nothing waits for an operator\nattention.opened: An operator is needed: " + words + strings.Repeat("\nattention.digest: 1 thing waits for an operator in all", 2)
	if got := s.emitted(); got != want {
		t.Errorf("the messages are\n%s\nwant\n%s", got, want)
	}
}

// A look in the future was made before the clock of the database was set back. It keeps nobody from looking.
func TestALookInTheFuture(t *testing.T) {
	t.Parallel()
	s := setup(t)
	w := s.watcher(func(c *notification.Config) { c.Every = time.Minute })
	s.look(w, 0)
	storetest.Exec(t, s.pool, pause)
	s.look(w, 0) // too early: it sees nothing
	if open := s.open(); len(open) != 0 {
		t.Errorf("a look that comes too early sees %+v", open)
	}
	storetest.Exec(t, s.pool, `UPDATE notification_look SET looked_at = now() + interval '1 hour'`)
	s.look(w, 0)
	if open := s.open(); len(open) != 1 {
		t.Errorf("after the clock was set back a look sees %+v", open)
	}
}

// Kinds that the configuration leaves out are not told. A planned replay is left out by default.
func TestKindsAreChosen(t *testing.T) {
	t.Parallel()
	s := setup(t)
	w := s.watcher(func(c *notification.Config) { c.Kinds = []attention.Kind{attention.Dead, attention.Failing} })
	storetest.Exec(t, s.pool, pause)
	s.look(w, 0)
	s.look(w, 0)
	for _, kind := range notification.DefaultKinds() {
		if kind == attention.Plans {
			t.Error("planned replays are told by default")
		}
	}
	if got, want := len(notification.DefaultKinds()), len(attention.Kinds())-1; got != want {
		t.Errorf("%d kinds are told by default, want %d", got, want)
	}
}

// If the source takes no events, the look says so and forgets nothing: it tells when the source is open again.
func TestASourceThatIsClosed(t *testing.T) {
	t.Parallel()
	s := setup(t)
	w := s.watcher(nil)
	storetest.Exec(t, s.pool, pause)
	s.look(w, 0)
	storetest.Exec(t, s.pool, `UPDATE source SET emit = false`)
	var closed *notification.SourceError
	if n, err := w.Look(t.Context()); n != 0 || !errors.As(err, &closed) {
		t.Errorf("the look emitted %d messages and returned %v", n, err)
	}
	storetest.Exec(t, s.pool, `UPDATE source SET emit = true, name = 'watch', key_name = 'ops'`)
	s.look(s.watcher(func(c *notification.Config) { c.Source = "watch" }), 1)
	var to string
	if err := s.pool.QueryRow(t.Context(), `SELECT source FROM outbox`).Scan(&to); err != nil || to != "ops" {
		t.Errorf("the message is for source %s and %v, want the first name of the renamed source", to, err)
	}
}

// The body is what a chat reads: a text, a title and the things one by one.
func TestTheBody(t *testing.T) {
	t.Parallel()
	s := setup(t)
	w := s.watcher(func(c *notification.Config) { c.URL = "https://oncegate.example" })
	storetest.Exec(t, s.pool, pause)
	s.look(w, 0)
	s.look(w, 1)
	var body []byte
	if err := s.pool.QueryRow(t.Context(), `SELECT payload FROM outbox`).Scan(&body); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Title, Text, URL string
		Waiting          int
		Items            []struct{ Kind, Name, Text, Action, Since string }
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	if got.URL != "https://oncegate.example" || got.Waiting != 1 || len(got.Items) != 1 || !strings.Contains(got.Text, words+". Resume it when its reason is gone.") {
		t.Fatalf("the body is %s", body)
	}
	if i := got.Items[0]; i.Kind != "paused" || i.Name != "target psp" || i.Text != words || i.Since != "2026-11-27T16:54:00Z" {
		t.Errorf("the item is %+v", i)
	}
}

// A test message goes the same way, and the state names the source.
func TestTestMessages(t *testing.T) {
	t.Parallel()
	s := setup(t)
	send := func() (from, event string, err error) {
		err = pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) (err error) {
			from, event, err = notification.SendTest(t.Context(), tx, "")
			return err
		})
		return from, event, err
	}
	if _, _, err := send(); !errors.Is(err, notification.ErrOff) {
		t.Errorf("before any look a test is refused with %v", err)
	}
	w := s.watcher(nil)
	s.look(w, 0)
	storetest.Exec(t, s.pool, pause)
	s.look(w, 0)
	from, event, err := send()
	if err != nil || from != "ops" || !strings.HasPrefix(event, notification.Test+"/") {
		t.Errorf("the test went to %s as %s, and %v", from, event, err)
	}
	if got := s.emitted(); got != "attention.test: A test: notifications of Oncegate arrive here" {
		t.Errorf("the messages are %s", got)
	}
	if open := s.open(); len(open) != 1 || open[0].ToldAt != nil {
		t.Errorf("%+v are open, want the pause, which nobody was told about", open)
	}
	storetest.Exec(t, s.pool, `UPDATE source SET emit = false`)
	var closed *notification.SourceError
	if _, _, err := send(); !errors.As(err, &closed) {
		t.Errorf("a test to a closed source is refused with %v", err)
	}
}
