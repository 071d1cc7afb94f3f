package operation_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
)

// A result stands for ever. While somebody resolves an effect, under the event's lock, no result is
// rendered of what the effect was before: the caller would be told of an unknown outcome while the
// effect is being sent again. The owner of a duplicate counts as the event's own.
func TestResultWaitsForWhoResolves(t *testing.T) {
	t.Parallel()
	for name, ofOwner := range map[string]bool{"the event's own effect": false, "the effect that it is a duplicate of": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := storetest.NewOperated(t, 1)
			resolved := o.Event(t, "agent:charge:1", "indeterminate")
			asked := resolved
			if ofOwner {
				asked = o.Event(t, "agent:charge:2", "done")
				storetest.Exec(t, o.Pool, `UPDATE effect SET state = 'duplicate', result = NULL, finished_at = now(),
					duplicate_of = (SELECT id FROM effect WHERE event_id = $2) WHERE event_id = $1`, asked, resolved)
			}
			tx, err := o.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback(t.Context()) })
			// As a resolution to send again does it, up to its commit.
			for _, sql := range []string{
				`SELECT FROM inbox_event WHERE id = $1 FOR NO KEY UPDATE`,
				`UPDATE effect SET state = 'pending', version = version + 1, next_at = now(), reason = NULL WHERE event_id = $1`,
			} {
				if _, err := tx.Exec(t.Context(), sql, resolved); err != nil {
					t.Fatal(err)
				}
			}
			type answer struct {
				document []byte
				ok       bool
				err      error
			}
			answers := make(chan answer, 1)
			go func() {
				document, ok, err := o.Ops.Result(t.Context(), asked)
				answers <- answer{document, ok, err}
			}()
			inboxtest.Until(t, "the result is asked for while the effect is being resolved", func() bool {
				return len(answers) > 0 || blockedBy(t, o, tx) > 0
			})
			if len(answers) > 0 {
				early := <-answers
				t.Fatalf("%s was rendered beside the resolution (%v), which then sends the effect again", early.document, early.err)
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := <-answers; got.ok || got.err != nil {
				t.Errorf("the effect is being sent again and the result is %s, %v", got.document, got.err)
			}
			var stored int
			if err := o.Pool.QueryRow(t.Context(), `SELECT count(*) FROM operation_result WHERE event_id = ANY ($1)`, []inbox.ID{asked, resolved}).Scan(&stored); err != nil || stored != 0 {
				t.Errorf("%d results are stored of an effect that is being sent again, %v", stored, err)
			}
		})
	}
}

// blockedBy is how many connections wait for what the transaction holds.
func blockedBy(t *testing.T, o *storetest.Operated, tx pgx.Tx) (n int) {
	t.Helper()
	err := o.Pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity a WHERE $1::int = ANY (pg_blocking_pids(a.pid))`, tx.Conn().PgConn().PID()).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
