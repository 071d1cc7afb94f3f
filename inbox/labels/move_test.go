package labels_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/labels"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
)

// labelled is a gate whose events have the label order=<sender's id>. Nothing moves their labels but the test.
type labelled struct{ *storetest.Past }

func newLabelled(t *testing.T) labelled {
	t.Helper()
	l := labelled{storetest.NewPast(t)}
	l.Source.Labels = func(a *inbox.Admission, event int) []inbox.Label {
		return []inbox.Label{{Name: "order", Value: a.Events[event].EventID}, {Name: "all", Value: "x"}, {Name: "all", Value: "again"}}
	}
	return l
}

func (l labelled) deliver(t *testing.T, id string) inbox.ID {
	t.Helper()
	item := l.Accept(t, inboxtest.Admission(l.Source, id), 0).Items[0]
	l.Settle(t, item.ID, inbox.EffectDone, 0)
	return item.ID
}

// found are the events with a label, as a list finds them.
func (l labelled) found(t *testing.T, name, value string) (out []string) {
	t.Helper()
	page, err := read.NewLister(l.Pool).Events(t.Context(), read.EventFilter{Label: inbox.Label{Name: name, Value: value}, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for i := range page.Data {
		out = append(out, page.Data[i].EventID)
	}
	return out
}

// wantPlaces checks in which of the two tables the labels are.
func (l labelled) wantPlaces(t *testing.T, waiting, indexed int) {
	t.Helper()
	w := l.Count(t, `SELECT coalesce(sum(cardinality(event_id)), 0) FROM event_label_batch`)
	if i := l.Count(t, `SELECT count(*) FROM event_label`); w != waiting || i != indexed {
		t.Errorf("%d labels wait and %d are in the index, want %d and %d", w, i, waiting, indexed)
	}
}

func moveNext(ctx context.Context, db labels.Querier) (n int, err error) {
	var oldest inbox.ID
	err = db.QueryRow(ctx, labels.MoveNext, labels.MoveBatches).Scan(&n, &oldest)
	return n, err
}

// An event is found by its labels from its first moment on, without an indexer, while one moves them, after one that failed,
// and when they are moved; each time once.
func TestLabelsAreFoundWhereverTheyAre(t *testing.T) {
	t.Parallel()
	l := newLabelled(t)
	want := func(when string) {
		t.Helper()
		if got := fmt.Sprint(l.found(t, "order", "evt_2"), l.found(t, "all", "x"), l.found(t, "all", "again"), l.found(t, "other", "x")); got != "[evt_2] [evt_3 evt_2 evt_1] [] []" {
			t.Errorf("%s, the labels find %s", when, got)
		}
	}
	for n := range 3 {
		l.deliver(t, fmt.Sprintf("evt_%d", n+1))
	}
	l.wantPlaces(t, 6, 0)
	want("without an indexer")
	stopped := errors.New("the process is killed")
	for _, end := range []error{stopped, nil} {
		err := pgx.BeginFunc(t.Context(), l.Pool, func(tx pgx.Tx) error {
			if n, err := moveNext(t.Context(), tx); err != nil || n != 3 {
				t.Errorf("%d batches were moved, %v", n, err)
			}
			want("while labels are moved")
			return end
		})
		if !errors.Is(err, end) {
			t.Fatal(err)
		}
		want("behind that")
	}
	l.wantPlaces(t, 0, 6)
	// A delivery that comes again writes no label again.
	l.Accept(t, inboxtest.Admission(l.Source, "evt_2"), 0)
	l.wantPlaces(t, 0, 6)
	l.deliver(t, "evt_4")
	if got := strings.Join(l.found(t, "all", "x"), " "); got != "evt_4 evt_3 evt_2 evt_1" {
		t.Errorf("labels that are moved and labels that wait find %s", got)
	}
}

// museumWatermark moves what is behind the last batch that it has moved, as if batches were committed in the order of their ids.
type museumWatermark struct{ at inbox.ID }

func (m *museumWatermark) move(ctx context.Context, db *pgxpool.Pool) error {
	rows, err := db.Query(ctx, `SELECT id FROM event_label_batch WHERE id > $1::uuid ORDER BY id`, [16]byte(m.at))
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[inbox.ID])
	if err != nil || len(ids) == 0 {
		return err
	}
	m.at = ids[len(ids)-1]
	_, err = db.Exec(ctx, `WITH gone AS (DELETE FROM event_label_batch WHERE id = ANY ($1) RETURNING *)
INSERT INTO event_label SELECT k.*, g.secret_id FROM gone g CROSS JOIN LATERAL unnest(g.event_id, g.name, g.value) AS k`, ids)
	return err
}

// Events are not committed in the order of their ids. Labels that are committed behind later ones are moved too.
func TestLabelsOfALateCommitAreMoved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		move func(context.Context, *pgxpool.Pool) error
		late int // labels that are left behind
	}{
		"indexer": {func(ctx context.Context, db *pgxpool.Pool) error {
			x, err := labels.New(labels.Config{DB: db})
			if err != nil {
				return err
			}
			return x.MoveWaiting(ctx)
		}, 0},
		"all":       {func(ctx context.Context, db *pgxpool.Pool) error { return labels.MoveAll(ctx, db) }, 0},
		"watermark": {new(museumWatermark).move, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLabelled(t)
			const write = `INSERT INTO event_label_batch (id, event_id, name, value) VALUES ($1::uuid, ARRAY[$1::uuid], '{order}', '{late}')`
			early, err := l.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = early.Rollback(context.WithoutCancel(t.Context())) }()
			if _, err := early.Exec(t.Context(), write, inbox.NewID(time.Now())); err != nil {
				t.Fatal(err)
			}
			l.Exec(t, write, inbox.NewID(time.Now()))
			if err := c.move(t.Context(), l.Pool); err != nil {
				t.Fatal(err)
			}
			l.wantPlaces(t, 0, 1)
			if err := early.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := c.move(t.Context(), l.Pool); err != nil {
				t.Fatal(err)
			}
			l.wantPlaces(t, c.late, 2-c.late)
		})
	}
}

// Indexers of several processes share the batches, and none is moved twice or left.
func TestIndexersShareBatches(t *testing.T) {
	t.Parallel()
	l := newLabelled(t)
	const batches = 5 * labels.MoveBatches
	l.Exec(t, `INSERT INTO event_label_batch (id, event_id, name, value)
SELECT e.id, ARRAY[e.id, e.id], '{order,all}', ARRAY[convert_to(n::text, 'UTF8'), 'x']
FROM generate_series(1, $1::int) n CROSS JOIN LATERAL (SELECT gen_random_uuid() AS id WHERE n > 0) e`, batches)
	var all sync.WaitGroup
	var mu sync.Mutex
	moved := 0
	for range 4 {
		all.Go(func() {
			for {
				n, err := moveNext(t.Context(), l.Pool)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				moved += n
				mu.Unlock()
				if n == 0 {
					return
				}
			}
		})
	}
	all.Wait()
	if moved != batches {
		t.Errorf("%d batches were moved, want %d", moved, batches)
	}
	l.wantPlaces(t, 0, 2*batches)
}

// Whoever erases an event waits for an indexer that is moving its labels, and leaves none.
func TestEraseWaitsForTheIndexer(t *testing.T) {
	t.Parallel()
	l := newLabelled(t)
	l.deliver(t, "evt_1")
	l.deliver(t, "evt_2")
	indexer, err := l.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = indexer.Rollback(context.WithoutCancel(t.Context())) }()
	if n, err := moveNext(t.Context(), indexer); err != nil || n != 2 {
		t.Fatalf("%d batches were moved, %v", n, err)
	}
	erased := make(chan error, 1)
	go func() {
		_, err := prune.EraseEvent(t.Context(), l.Pool, prune.Erase{Source: l.Source.Name, EventID: "evt_1", Actor: "ann", Reason: "a test"})
		erased <- err
	}()
	inboxtest.Until(t, "the erasure waits", func() bool {
		return l.Count(t, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%event_label_batch%' AND datname = current_database()
			AND pid IN (SELECT pid FROM pg_locks WHERE relation = 'event_label_batch'::regclass AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`) == 1
	})
	if err := indexer.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-erased; err != nil {
		t.Fatal(err)
	}
	if got := l.found(t, "all", "x"); !slices.Equal(got, []string{"evt_2"}) {
		t.Errorf("the labels find %q", got)
	}
	l.wantPlaces(t, 0, 2)
}

// A batch that is moved already does not keep the others from being moved.
func TestLabelsThatAreThereStopNothing(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(context.Context, *pgxpool.Pool) error{
		"indexer": func(ctx context.Context, db *pgxpool.Pool) error {
			x, err := labels.New(labels.Config{DB: db})
			if err != nil {
				return err
			}
			return x.MoveWaiting(ctx)
		},
		"all": func(ctx context.Context, db *pgxpool.Pool) error { return labels.MoveAll(ctx, db) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLabelled(t)
			first := l.deliver(t, "evt_1")
			l.deliver(t, "evt_2")
			l.Exec(t, `INSERT INTO event_label (event_id, name, value) VALUES ($1, 'order', 'evt_1')`, first)
			if err := move(t.Context(), l.Pool); err != nil {
				t.Fatal(err)
			}
			l.wantPlaces(t, 0, 4)
		})
	}
}

// An indexer moves what was committed when it is woken, and what it finds when it starts.
func TestIndexerMovesWhatIsCommitted(t *testing.T) {
	t.Parallel()
	l := newLabelled(t)
	l.deliver(t, "evt_1")
	x, err := labels.New(labels.Config{DB: l.Pool, Every: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	moved := func() bool { return l.Count(t, `SELECT count(*) FROM event_label_batch`) == 0 }
	inboxtest.Until(t, "what was left is moved", moved)
	l.deliver(t, "evt_2")
	x.Wake()
	inboxtest.Until(t, "what came is moved", moved)
	if err := x.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	l.wantPlaces(t, 0, 4)
}

// More labels may wait than one statement moves.
func TestIndexerMovesAll(t *testing.T) {
	t.Parallel()
	l := newLabelled(t)
	l.Exec(t, `INSERT INTO event_label_batch (id, event_id, name, value)
SELECT e.id, ARRAY[e.id], '{order}', '{x}' FROM generate_series(1, $1::int) n CROSS JOIN LATERAL (SELECT gen_random_uuid() AS id WHERE n > 0) e`, 3*labels.MoveBatches+1)
	x, err := labels.New(labels.Config{DB: l.Pool})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.MoveWaiting(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.wantPlaces(t, 0, 3*labels.MoveBatches+1)
}
