package history_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/history"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/internal/session"
)

// TestJudge states the rule over all combinations of what a process may know: whole is only said by one that remembers enough.
func TestJudge(t *testing.T) {
	t.Parallel()
	const at = 1000
	for _, remembered := range []uint32{0, 1, 2, 3} { // the timeline that begins is 3
		for _, switched := range []uint64{0, at - 1, at, at + 1} {
			for _, synchronous := range []bool{false, true} {
				for _, age := range []time.Duration{time.Second, history.MaxWitnessAge + 1} {
					for _, waited := range []time.Duration{0, history.WitnessPatience} {
						e := history.Evidence{Timeline: 3, SwitchedAt: switched, Age: age, Waited: waited}
						if remembered != 0 {
							e.Witness = session.Witness{Timeline: remembered, LSN: at, Synchronous: synchronous}
						}
						earlier := remembered == 1 || remembered == 2
						misses := earlier && switched != 0 && switched <= at
						whole := remembered == 2 && synchronous && switched > at && age == time.Second
						knows := earlier && age == time.Second
						got := history.Judge(e)
						want := history.Restored
						switch {
						case misses:
						case whole:
							want = history.Whole
						case !knows && waited == 0:
							want = history.Undecided
						}
						if got != want || history.Misses(e) != misses {
							t.Errorf("%+v is judged %s, misses %t; want %s, %t", e, got, history.Misses(e), want, misses)
						}
					}
				}
			}
		}
	}
}

func begin(t *testing.T, pool *pgxpool.Pool) *history.Row {
	t.Helper()
	err := pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error { return history.Begin(t.Context(), conn.Conn()) })
	if err != nil {
		t.Fatal(err)
	}
	row, err := history.Read(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// TestBeginAndDeclare takes a database through what may become of it. The row that it finds is changed instead of the cluster.
func TestBeginAndDeclare(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	if _, err := history.Read(t.Context(), pool); !errors.Is(err, history.ErrUnknown) {
		t.Errorf("an empty history is read with %v", err)
	}
	for range 2 { // a second process changes nothing
		if row := begin(t, pool); row.Verdict != history.First || !row.Open() || row.Err() != nil {
			t.Fatalf("a fresh database is %+v, %v", row, row.Err())
		}
	}
	declare := func(as history.Verdict) (*history.Row, error) {
		return history.Declare(t.Context(), pool, history.Declaration{As: as, Actor: "ann", Reason: "restored on Monday"})
	}
	for _, as := range []history.Verdict{history.Moved, history.First, history.Whole, history.Undecided, history.Undeclared, "production", ""} {
		if _, err := declare(as); !errors.Is(err, history.ErrDeclaration) {
			t.Errorf("a database that is where it was is declared %q: %v", as, err)
		}
	}
	if _, err := history.Declare(t.Context(), pool, history.Declaration{As: history.Copied, Actor: "ann"}); !errors.Is(err, inbox.ErrUnexplained) {
		t.Errorf("a declaration without a reason: %v", err)
	}

	for name, c := range map[string]struct {
		change string
		want   history.Verdict
	}{
		"another cluster":           {`system_identifier = system_identifier + 1`, history.Undeclared},
		"tables made anew":          {`table_oid = 1`, history.Undeclared},
		"a promotion":               {`timeline = timeline - 1`, history.Undecided},
		"another cluster, promoted": {`system_identifier = system_identifier + 1, timeline = timeline - 1`, history.Undeclared},
		"an earlier timeline":       {`timeline = timeline + 1`, history.Undeclared},
	} {
		storetest.Exec(t, pool, `DELETE FROM database_history`)
		begin(t, pool)
		storetest.Exec(t, pool, `UPDATE database_history SET `+c.change)
		if row := begin(t, pool); row.Verdict != c.want || row.Open() || row.Err() == nil {
			t.Errorf("after %s it is %s, open %t, %v", name, row.Verdict, row.Open(), row.Err())
		}
	}

	// What was declared stays until something else is.
	for i, step := range []struct {
		as   history.Verdict
		err  error
		open bool
	}{
		{history.Copied, nil, false}, {history.Copied, history.ErrDeclaration, false}, {history.Restored, nil, false},
		{history.Restored, history.ErrDeclaration, false}, {history.Moved, history.ErrDeclaration, false}, {history.Copied, nil, false}, {history.Moved, nil, true},
		{history.Moved, history.ErrDeclaration, true}, {history.Restored, nil, false},
	} {
		row, err := declare(step.as)
		if !errors.Is(err, step.err) || step.err == nil && (err != nil || row.Verdict != step.as) {
			t.Fatalf("step %d, declared %s: %+v, %v", i, step.as, row, err)
		}
		if now := begin(t, pool); now.Open() != step.open {
			t.Errorf("step %d, declared %s: open %t", i, step.as, now.Open())
		}
	}
	var audited int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM audit WHERE action = 'history.declare'`).Scan(&audited); err != nil || audited != 5 {
		t.Errorf("%d declarations are in the audit: %v", audited, err)
	}

	// Restored wins over whole, and nothing over restored.
	row := begin(t, pool)
	if err := history.Finish(t.Context(), pool, row.ID); err != nil {
		t.Fatal(err)
	}
	storetest.Exec(t, pool, `UPDATE database_history SET verdict = 'undecided', finished_at = NULL WHERE id = $1`, row.ID)
	for _, step := range []struct{ as, want history.Verdict }{{history.Whole, history.Whole}, {history.Restored, history.Restored}, {history.Whole, history.Restored}} {
		if err := history.Decide(t.Context(), pool, row.ID, step.as); err != nil {
			t.Fatal(err)
		}
		if now := begin(t, pool); now.Verdict != step.want || now.Open() != (step.want == history.Whole) {
			t.Errorf("decided %s: %s, open %t", step.as, now.Verdict, now.Open())
		}
	}
}
