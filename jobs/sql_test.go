package jobs_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/sql"
)

func TestSQLFunctions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body     string // of the function
		event    string // body of the event
		state    inbox.EffectState
		reason   reasons.Reason
		code     string
		applied  string
		attempts int
	}{
		"gets the event as a document": {
			`INSERT INTO applied VALUES (event->>'type' || ' ' || (event->'body'->>'paid') || ' ' || (event->>'source') || ' ' || (event->>'route'))`,
			`{"paid": 7}`, inbox.EffectDone, "", "", "test.happened 7 shop within", 1,
		},
		"gets what is not JSON as base64": {
			`INSERT INTO applied VALUES (event->>'body_base64')`, "a\x00b", inbox.EffectDone, "", "", "YQBi", 1,
		},
		"fails for good": {
			`INSERT INTO applied VALUES ('x'); PERFORM 1/0`, `{}`, inbox.EffectDead, reasons.SQL, "22012", "", 1,
		},
		"gets what PostgreSQL cannot hold": {`NULL`, `{"a":"\u0000"}`, inbox.EffectDead, reasons.SQL, "22P05", "", 1},
		"meets a read-only server": {
			`PERFORM set_config('transaction_read_only', 'on', true); INSERT INTO applied VALUES ('x')`,
			`{}`, inbox.EffectDead, reasons.Exhausted, "25006", "", 5,
		},
		"raises what dead_on lists":              {`RAISE EXCEPTION SQLSTATE 'P0002'`, `{}`, inbox.EffectDead, reasons.SQL, "P0002", "", 1},
		"meets what dead_on lists at the commit": {`INSERT INTO applied VALUES ('38')`, `{}`, inbox.EffectDead, reasons.SQL, "38001", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.exec(`CREATE TABLE applied (what text)`)
			b.exec(`CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				IF NEW.what = '38' THEN RAISE EXCEPTION SQLSTATE '38001'; END IF; RETURN NULL; END $$`)
			b.exec(`CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON applied DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION at_commit()`)
			b.exec(`CREATE FUNCTION apply_event(event jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN ` + c.body + `; END $$`)
			id := b.admit(within, 1)[0]
			b.exec(`UPDATE inbox_body SET body = $1`, []byte(c.event))
			b.exec(`UPDATE inbox_event SET body_offset = 0, body_length = $1`, len(c.event))
			kind, err := sql.New(sql.Config{Call: "apply_event", DeadOn: []string{"P0002", "38"}})
			if err != nil {
				t.Fatal(err)
			}
			b.client(jobs.Config{Transactionals: map[string]effect.Transactional{within: kind}})
			b.eventuallyState(id, c.state)
			r := b.row(id)
			var code, applied string
			err = b.pool.QueryRow(t.Context(), `SELECT coalesce(last_code, ''), coalesce((SELECT string_agg(what, ',') FROM applied), '') FROM effect`).Scan(&code, &applied)
			if err != nil {
				t.Fatal(err)
			}
			if r.Reason != string(c.reason) || code != c.code || applied != c.applied || r.Attempts != c.attempts {
				t.Errorf("reason %q, code %q, applied %q after %d attempts", r.Reason, code, applied, r.Attempts)
			}
		})
	}
}

func TestSQLTakesOnlyTheNameOfAFunction(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"", "f()", "a.b.c", "f; DROP TABLE effect", `"F"`, "F", "1f"} {
		if _, err := sql.New(sql.Config{Call: call}); err == nil {
			t.Errorf("%q is accepted", call)
		}
	}
	for _, state := range []string{"", "3", "p0002", "P000", "P00022", "22 ", "*"} {
		if _, err := sql.New(sql.Config{Call: "f", DeadOn: []string{state}}); err == nil || !strings.Contains(err.Error(), "dead_on") {
			t.Errorf("dead_on %q is accepted: %v", state, err)
		}
	}
}

// A statement is ended before its lease is, and a lock that is not given is asked
// for again: whatever an attempt did by then is gone with it.
func TestSQLTimeouts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body     string
		held     bool // by another transaction, until the first attempt has ended
		state    inbox.EffectState
		code     string
		applied  int
		attempts int // 0 is any number
	}{
		"a statement without end": {`INSERT INTO applied VALUES (1); PERFORM pg_sleep(20)`, false, inbox.EffectDead, "57014", 0, 5},
		"a lock":                  {`INSERT INTO applied VALUES (1); PERFORM FROM held FOR UPDATE`, true, inbox.EffectDone, "", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.exec(`CREATE TABLE applied (what int)`)
			b.exec(`CREATE TABLE held AS SELECT 1 AS id`)
			b.exec(`CREATE FUNCTION apply_event(event jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN ` + c.body + `; END $$`)
			b.retry.Max = 50 * time.Millisecond
			id := b.admit(within, 1)[0]
			kind, err := sql.New(sql.Config{Call: "apply_event"})
			if err != nil {
				t.Fatal(err)
			}
			tx, err := b.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.WithoutCancel(t.Context()))
			if c.held {
				b.retry.Attempts = 1000
				if _, err := tx.Exec(t.Context(), `SELECT FROM held FOR UPDATE`); err != nil {
					t.Fatal(err)
				}
			}
			b.client(jobs.Config{
				Routes: b.changed(func(r *jobs.Route) { r.Timeout = 300 * time.Millisecond }), Transactionals: map[string]effect.Transactional{within: kind},
			})
			b.eventually("an attempt that ended in vain", func() bool { return b.count(`SELECT count(*) FROM effect_attempt WHERE outcome = 'retry'`) > 0 })
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.eventuallyState(id, c.state)
			r := b.row(id)
			if n := b.count(`SELECT count(*) FROM applied`); n != c.applied || c.attempts > 0 && r.Attempts != c.attempts {
				t.Errorf("%+v, applied %d times", r, n)
			}
			// The server ends it, or we do where the server is late: an attempt of the latter
			// sort has no code.
			if n := b.count(`SELECT count(*) FROM effect_attempt WHERE coalesce(code, '') = $1`, c.code); n == 0 {
				t.Errorf("no attempt ended with %q", c.code)
			}
			if n := b.count(`SELECT count(*) FROM effect WHERE coalesce(last_code, '') NOT IN ('', $1)`, c.code); n != 0 {
				t.Errorf("the last code is another than %q", c.code)
			}
		})
	}
}
