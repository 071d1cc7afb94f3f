package relay_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/read"
)

// newSameID is an outbox of a source of webhooks or of operations.
func newSameID(t *testing.T, strict bool) *outbox {
	t.Helper()
	o := newOutbox(t)
	o.Source.Strict = strict
	return o
}

// payloads are the recorded payload of an event and, in the order in which they came, those that conflict with it.
func (o *outbox) payloads(t *testing.T, id string) (recorded string, conflicts []string) {
	t.Helper()
	o.Scan(t, `SELECT convert_from(substr(b.body, e.body_offset + 1, e.body_length), 'UTF8')
		FROM inbox_event e JOIN inbox_body b ON b.id = e.body_id WHERE e.event_id = '`+id+`'`, &recorded)
	rows, err := o.Pool.Query(t.Context(), `SELECT convert_from(c.body, 'UTF8') FROM conflict c JOIN inbox_event e ON e.id = c.event_id
		WHERE e.event_id = $1 ORDER BY c.first_seen_at, c.id`, id)
	if err != nil {
		t.Fatal(err)
	}
	if conflicts, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		t.Fatal(err)
	}
	return recorded, conflicts
}

// Of the payloads that transactions emit under one id, the one that was committed first is the event, and the others are its
// conflicts, in the order of their commits: in one batch or in several, on a source of webhooks and on one of operations.
func TestEmitOfOneIDKeepsTheOrderOfCommits(t *testing.T) {
	t.Parallel()
	for name, strict := range map[string]bool{"webhooks": false, "operations": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newSameID(t, strict)
			var txs []pgx.Tx
			var want []string
			for i := range 4 {
				tx, err := o.Pool.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
				for _, id := range []string{"batch", "lone"} {
					if _, err := tx.Exec(t.Context(), emit, id, fmt.Sprintf(`{"n": %d}`, i)); err != nil {
						t.Fatal(err)
					}
				}
				txs = append(txs, tx)
			}
			for i := range slices.Backward(txs) { // the last one first
				if err := txs[i].Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				want = append(want, fmt.Sprintf(`{"n": %d}`, i))
			}
			storetest.Exec(t, o.Pool, `UPDATE outbox SET source = 'later' WHERE event_id = 'lone'`)
			storetest.RunRelay(t, o.Relay(t, o.Gate, 0))
			storetest.Exec(t, o.Pool, `UPDATE outbox SET source = 'orders'`)
			storetest.RunRelay(t, o.Relay(t, o.Gate, 1))
			for _, id := range []string{"batch", "lone"} {
				if recorded, conflicts := o.payloads(t, id); recorded != want[0] || !slices.Equal(conflicts, want[1:]) {
					t.Errorf("%s: recorded %s and kept %s, want the order of %s", id, recorded, conflicts, want)
				}
			}

			// A payload that lost can be admitted as a separate event, like the payload of any other conflict.
			rows, err := inboxtest.Rows(inboxtest.Lister(o.Pool).Conflicts(t.Context(), read.ConflictFilter{}))
			if err != nil || len(rows) != 6 {
				t.Fatalf("%d conflicts are listed, want 6: %v", len(rows), err)
			}
			admit := decide.AdmitConflict{Pool: o.Pool, Gate: o.Gate, Clock: o.Clock, Source: o.Source, Conflict: rows[0].ID, Actor: "test", Reason: "a test"}
			if got, err := admit.Run(t.Context()); err != nil || got.Outcome != inbox.Recorded {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// A transaction that has its position is visible before the next one of the same id gets one. Others do not wait, and only the
// later rows of its event wait for a row that the gate does not take.
func TestEmitWaitsForTheSameIDAlone(t *testing.T) {
	t.Parallel()
	o := newSameID(t, true)
	first, err := o.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Rollback(context.WithoutCancel(t.Context())) }()
	for _, sql := range []string{`SELECT emit('orders', 'same', 't', '{"n": 1}')`, `SET CONSTRAINTS ALL IMMEDIATE`} { // it has its position, and is open
		if _, err := first.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	second := make(chan error, 1)
	go func() {
		_, err := o.Pool.Exec(t.Context(), emit, "same", `{"n": 2}`)
		second <- err
	}()
	inboxtest.Until(t, "the second commit to wait for the first", func() bool { return o.waitingCommits(t) == 1 })
	storetest.Exec(t, o.Pool, emit, "other", `{}`)
	if n := storetest.RunRelay(t, o.Relay(t, o.Gate, 0)); n != 1 {
		t.Errorf("relayed %d, want the other one alone", n)
	}
	if err := errors.Join(first.Commit(t.Context()), <-second); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"same", "beside"} { // one row a batch: what comes behind must know what was left
		storetest.Exec(t, o.Pool, emit, id, `{"n": 3}`)
	}
	refused := false
	storetest.RunRelay(t, o.Relay(t, acceptFunc(func(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
		if !refused && a.Events[0].EventID == "same" {
			refused = true
			return inbox.Receipt{}, gate.ErrOverloaded
		}
		return o.Gate.Accept(ctx, a)
	}), 1))
	o.Want(t, 2, 3)
	storetest.RunRelay(t, o.Relay(t, o.Gate, 1))
	if recorded, conflicts := o.payloads(t, "same"); recorded != `{"n": 1}` || !slices.Equal(conflicts, []string{`{"n": 2}`, `{"n": 3}`}) {
		t.Errorf("recorded %s and kept %s, want the order of the commits", recorded, conflicts)
	}
}

// Transactions that emit the same ids in any order while their commits are in another one, and relays of several processes:
// no transaction fails, and of each id the first commit is the event. The commits' order is known because each transaction
// takes a number under a row's lock, after it emitted, and keeps the lock until it is committed.
func TestEmitOfOneIDUnderConcurrency(t *testing.T) {
	t.Parallel()
	o := newSameID(t, true)
	storetest.Exec(t, o.Pool, `CREATE TABLE committed (n int)`)
	storetest.Exec(t, o.Pool, `INSERT INTO committed VALUES (0)`)
	storetest.Exec(t, o.Pool, `CREATE TABLE numbered (who text, n int)`)
	ctx, stop := context.WithCancel(t.Context())
	var relays, callers sync.WaitGroup
	for i := range 3 {
		relay := o.Relay(t, o.Gate, 3+4*i)
		relays.Go(func() {
			for ctx.Err() == nil {
				if _, err := relay.Run(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	const rounds, together = 40, 4
	for round := range rounds {
		for c := range together {
			callers.Go(func() {
				err := pgx.BeginFunc(t.Context(), o.Pool, func(tx pgx.Tx) error {
					who := fmt.Sprintf("r%d c%d", round, c)
					for _, part := range rand.Perm(3) {
						if _, err := tx.Exec(t.Context(), emit, fmt.Sprintf("r%d_%d", round, part), `{"who": "`+who+`"}`); err != nil {
							return err
						}
					}
					_, err := tx.Exec(t.Context(), `WITH next AS (UPDATE committed SET n = n + 1 RETURNING n) INSERT INTO numbered SELECT $1, n FROM next`, who)
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		callers.Wait()
	}
	inboxtest.Until(t, "the outbox is empty", func() bool { _, waiting := o.Counts(t); return waiting == 0 })
	stop()
	relays.Wait()
	for round := range rounds {
		var order string
		o.Scan(t, fmt.Sprintf(`SELECT string_agg('{"who": "' || who || '"}', ',' ORDER BY n) FROM numbered WHERE who LIKE 'r%d c%%'`, round), &order)
		for part := range 3 {
			recorded, conflicts := o.payloads(t, fmt.Sprintf("r%d_%d", round, part))
			if got := strings.Join(append([]string{recorded}, conflicts...), ","); got != order {
				t.Errorf("r%d_%d: %s, want %s", round, part, got, order)
			}
		}
	}
}
