package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/reconcile"
)

// list is a sender's list: its pages, by cursor.
type list struct {
	pages map[string]*reconcile.Page
	asked []string // the cursors, in order
	fail  func(cursor string) error
	again func(delivery string) error
}

func (l *list) Page(_ context.Context, _, _ time.Time, cursor string) (*reconcile.Page, error) {
	l.asked = append(l.asked, cursor)
	if l.fail != nil {
		if err := l.fail(cursor); err != nil {
			return nil, err
		}
	}
	return l.pages[cursor], nil
}

func (l *list) Redeliver(_ context.Context, delivery string) error { return l.again(delivery) }

type acceptFunc func(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error)

func (f acceptFunc) Accept(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
	return f(ctx, a)
}

type bundle struct {
	*storetest.Outbox
	list *list
	run  reconcile.Run
	now  time.Time
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{Outbox: storetest.NewOutbox(t), list: &list{pages: map[string]*reconcile.Page{}}, now: time.Now().Truncate(time.Second)}
	b.run = reconcile.Run{
		Pool: b.Pool, Gate: b.Gate, Lister: b.list, Source: b.Source.ID, Name: b.Source.Name, NewestFirst: true,
		Since: b.now.Add(-time.Hour), Until: b.now, Actor: "ann", Reason: "a test", Now: func() time.Time { return b.now },
	}
	return b
}

// listed is an event as the list shows it: other bytes than those of its delivery.
func (b *bundle) listed(id string) reconcile.Event {
	a := inboxtest.AdmissionOf(b.Source, id, fmt.Sprintf(`{"id":%q,"from":"the list"}`, id))
	a.Reconciled = true
	return reconcile.Event{ID: id, Created: b.now.Add(-time.Minute), Admission: a}
}

func (b *bundle) page(next string, ids ...string) *reconcile.Page {
	p := &reconcile.Page{Next: next}
	for _, id := range ids {
		p.Events = append(p.Events, b.listed(id))
	}
	return p
}

func (b *bundle) deliver(t *testing.T, id string) inbox.Outcome {
	t.Helper()
	receipt, err := b.Gate.Accept(t.Context(), inboxtest.AdmissionOf(b.Source, id, fmt.Sprintf(`{"id":%q,"from":"a delivery"}`, id)))
	if err != nil {
		t.Fatal(err)
	}
	return receipt.Items[0].Outcome
}

func (b *bundle) count(t *testing.T, sql string) (n int) {
	t.Helper()
	if err := b.Pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("AdmitsWhatNeverArrived", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.deliver(t, "evt_2")
		b.list.pages[""], b.list.pages["2"] = b.page("2", "evt_4", "evt_3"), b.page("", "evt_2", "evt_1")
		dry := b.run
		dry.DryRun = true
		before := inboxtest.Tables(t, b.Pool)
		want := reconcile.Counts{Pages: 2, Listed: 4, Known: 1, Missing: 3}
		if got, err := dry.Do(t.Context()); err != nil || got.Counts != want || !got.Complete {
			t.Errorf("the dry run: %+v, %v, want %+v", got, err, want)
		}
		if changed := inboxtest.Changed(before, inboxtest.Tables(t, b.Pool)); len(changed) > 0 {
			t.Errorf("the dry run changed %v", changed)
		}
		want.Admitted = 3
		if got, err := b.run.Do(t.Context()); err != nil || got.Counts != want || !got.Complete {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
		if n := b.count(t, `SELECT count(*) FROM inbox_event WHERE admission_detail = 'reconciled'`); n != 3 {
			t.Errorf("%d events are marked as reconciled, want 3", n)
		}
		if n := b.count(t, `SELECT count(*) FROM audit WHERE action = 'reconcile' AND actor = 'ann' AND object = 'source/orders' AND (after->>'admitted')::int = 3`); n != 1 {
			t.Errorf("%d entries in the audit", n)
		}
		// What the list brought is known from then on, also to a delivery with other bytes.
		if got := b.deliver(t, "evt_3"); got != inbox.Duplicate {
			t.Errorf("a late delivery is a %s", got)
		}
		want = reconcile.Counts{Pages: 2, Listed: 4, Known: 4}
		if got, err := b.run.Do(t.Context()); err != nil || got.Counts != want {
			t.Errorf("again: %+v, %v, want %+v", got, err, want)
		}
		if n := b.count(t, `SELECT count(*) FROM conflict`); n != 0 {
			t.Errorf("%d conflicts, want none", n)
		}
	})

	t.Run("LeavesARaceToTheGate", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.list.pages[""] = b.page("", "evt_1")
		b.run.Gate = acceptFunc(func(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
			b.deliver(t, a.Events[0].EventID) // after the run has looked for the key
			return b.Gate.Accept(ctx, a)
		})
		want := reconcile.Counts{Pages: 1, Listed: 1, Missing: 1, Arrived: 1}
		if got, err := b.run.Do(t.Context()); err != nil || got.Counts != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
		if n := b.count(t, `SELECT count(*) FROM inbox_event`); n != 1 {
			t.Errorf("%d events, want 1", n)
		}
		if n := b.count(t, `SELECT count(*) FROM conflict`); n != 0 {
			t.Errorf("%d conflicts, want none", n)
		}
	})

	t.Run("ContinuesAnInterruptedRun", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.list.pages[""], b.list.pages["2"] = b.page("2", "evt_2"), b.page("", "evt_1")
		ctx, cancel := context.WithCancel(t.Context())
		b.list.fail = func(cursor string) error {
			if cursor == "2" {
				cancel()
			}
			return ctx.Err()
		}
		if _, err := b.run.Do(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v", err)
		}
		last, err := reconcile.Read(t.Context(), b.Pool, b.Source.ID)
		if err != nil || last.Complete || last.Next != "2" || last.Admitted != 1 || last.Error != "" || last.CoveredUntil != nil {
			t.Errorf("%+v, %v", last, err)
		}
		b.list.fail, b.list.asked = nil, nil
		resumed := b.run
		resumed.Resume = true
		want := reconcile.Counts{Pages: 2, Listed: 2, Missing: 2, Admitted: 2}
		if got, err := resumed.Do(t.Context()); err != nil || got.Counts != want || !slices.Equal(b.list.asked, []string{"2"}) {
			t.Errorf("%+v, %v after %q, want %+v", got, err, b.list.asked, want)
		}
		if last, err := reconcile.Read(t.Context(), b.Pool, b.Source.ID); err != nil || !last.Complete || last.CoveredUntil == nil || !last.CoveredUntil.Equal(b.now) {
			t.Errorf("%+v, %v", last, err)
		}
		if _, err := resumed.Do(t.Context()); !errors.Is(err, reconcile.ErrNoneInterrupted) {
			t.Errorf("error %v", err)
		}
	})

	t.Run("EndsAListThatDoesNotEnd", func(t *testing.T) {
		t.Parallel()
		for name, page := range map[string]func(n int) *reconcile.Page{
			"the same page": func(int) *reconcile.Page {
				return &reconcile.Page{Next: "same", Events: []reconcile.Event{{ID: "a", Unusable: "u"}}}
			},
			"the same events": func(n int) *reconcile.Page {
				return &reconcile.Page{Next: fmt.Sprint(n), Events: []reconcile.Event{{ID: "a", Unusable: "u"}}}
			},
			"no event": func(n int) *reconcile.Page { return &reconcile.Page{Next: fmt.Sprint(n)} },
			"other events": func(n int) *reconcile.Page {
				return &reconcile.Page{Next: fmt.Sprint(n), Events: []reconcile.Event{{ID: fmt.Sprint(n), Unusable: "u"}}}
			},
		} {
			b := setup(t)
			n := 0
			b.run.DryRun = true
			b.run.Lister = lying(func() *reconcile.Page { n++; return page(n) })
			if _, err := b.run.Do(t.Context()); !errors.Is(err, reconcile.ErrEndless) {
				t.Errorf("%s: error %v after %d pages", name, err, n)
			}
		}
	})

	t.Run("LetsOneRunOfASourceWork", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.list.pages[""] = b.page("")
		other := b.run
		b.list.fail = func(string) error {
			if _, err := other.Do(t.Context()); !errors.Is(err, reconcile.ErrRunning) {
				t.Errorf("error %v", err)
			}
			return nil
		}
		if _, err := b.run.Do(t.Context()); err != nil {
			t.Error(err)
		}
	})

	t.Run("AsksForOneMoreDelivery", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.deliver(t, "guid_2")
		b.list.pages[""] = &reconcile.Page{}
		for i, id := range []string{"guid_3", "guid_3", "guid_2", "guid_1"} { // an attempt and its repetition have one id
			b.list.pages[""].Events = append(b.list.pages[""].Events, reconcile.Event{ID: id, Created: b.now.Add(-time.Minute), Delivery: fmt.Sprint(i)})
		}
		var asked []string
		b.list.again = func(delivery string) error {
			asked = append(asked, delivery)
			if delivery == "3" {
				return fmt.Errorf("%w: too old", reconcile.ErrRefused)
			}
			return nil
		}
		want := reconcile.Counts{Pages: 1, Listed: 4, Known: 2, Missing: 1, Redelivered: 1, Unusable: 1, Why: "the sender refuses to deliver it again"}
		if got, err := b.run.Do(t.Context()); err != nil || got.Counts != want || !slices.Equal(asked, []string{"3", "1"}) {
			t.Errorf("%+v, %v, asked for %q, want %+v", got, err, asked, want)
		}
	})

	t.Run("LeavesOutWhatIsNotOfThePeriod", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.page("2", "evt_new", "evt_in", "evt_old")
		p.Events[0].Created, p.Events[2].Created = b.now.Add(time.Minute), b.now.Add(-2*time.Hour)
		b.list.pages[""] = p
		want := reconcile.Counts{Pages: 1, Listed: 1, Missing: 1, Admitted: 1}
		if got, err := b.run.Do(t.Context()); err != nil || got.Counts != want || !got.Complete {
			t.Errorf("%+v, %v, want %+v and no further page", got, err, want)
		}
	})
}

type lying func() *reconcile.Page

func (l lying) Page(context.Context, time.Time, time.Time, string) (*reconcile.Page, error) {
	return l(), nil
}
func (lying) Redeliver(context.Context, string) error { return nil }

// A scheduled run begins an hour before the end of the last complete one, and not where a failed one ended.
func TestScheduler(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var periods [][2]time.Time
	var failed error
	source := reconcile.Scheduled{Source: b.Source.ID, Name: "orders", Every: time.Hour, Window: 24 * time.Hour, Start: func() (reconcile.Run, func(), error) {
		run := b.run
		run.Lister = recording(func(since, until time.Time) error {
			periods = append(periods, [2]time.Time{since, until})
			return failed
		})
		return run, func() {}, nil
	}}
	s := reconcile.Scheduler{Pool: b.Pool, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return b.now }}
	look := func(after time.Duration) {
		t.Helper()
		b.now = b.now.Add(after)
		s.Look(t.Context(), &source)
	}
	first := b.now
	look(0)
	look(59 * time.Minute) // not yet
	look(time.Minute)
	failed = errors.New("the sender is away")
	look(2 * time.Hour)
	failed = nil
	look(time.Hour) // the failed period, and what followed it
	want := [][2]time.Time{
		{first.Add(-24*time.Hour - 5*time.Minute), first.Add(-5 * time.Minute)},
		{first.Add(-65 * time.Minute), first.Add(55 * time.Minute)},
		{first.Add(-5 * time.Minute), first.Add(175 * time.Minute)},
		{first.Add(-5 * time.Minute), first.Add(175 * time.Minute)},
		{first.Add(115 * time.Minute), first.Add(235 * time.Minute)},
	}
	if len(periods) != len(want) {
		t.Fatalf("%d runs: %v", len(periods), periods)
	}
	for i := range want {
		if !periods[i][0].Equal(want[i][0]) || !periods[i][1].Equal(want[i][1]) {
			t.Errorf("run %d: %v, want %v", i, periods[i], want[i])
		}
	}
	if n := b.count(t, `SELECT count(*) FROM audit WHERE action = 'reconcile'`); n != 0 {
		t.Errorf("runs that found nothing are audited %d times", n)
	}
}

type recording func(since, until time.Time) error

func (r recording) Page(_ context.Context, since, until time.Time, _ string) (*reconcile.Page, error) {
	return &reconcile.Page{}, r(since, until)
}
func (recording) Redeliver(context.Context, string) error { return nil }
