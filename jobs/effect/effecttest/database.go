package effecttest

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs/effect"
)

// sqlStates lists the error codes of PostgreSQL as in its source (errcodes.txt of
// version 15): code and name.
//
//go:embed testdata/sqlstates.txt
var sqlStates string

// content is part of the event. No result may contain it, although the database's messages quote
// it.
const content = "canary-content"

// NewTransactional makes a kind that calls the function of that name with a JSON
// document whose member body is the event's.
type NewTransactional func(tb testing.TB, function string) effect.Transactional

// Pool is a pool of connections to the database, such as pgxpool's.
type Pool interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Database returns functions of a database that fail in every way. The effect counts as taken when
// its row is committed.
func Database(pool Pool, build NewTransactional) Kind {
	d := &database{pool: pool, build: build}
	k := Kind{
		Secrets: []string{content},
		Without: map[Topic]string{
			AnswersAfter: "what a transaction did is gone with its error",
			Unreachable:  "it is in the database that calls it", Forbidden: "it has no address",
			HalfReply: "the database's protocol is the driver's", SlowReply: "the database's protocol is the driver's",
		},
	}
	const act = `INSERT INTO applied VALUES (event->'body'->>'id', event::text)`
	lines := bufio.NewScanner(strings.NewReader(sqlStates))
	for lines.Scan() {
		code, name, _ := strings.Cut(lines.Text(), " ")
		c := Case{Topic: Refuses, Name: code + " " + name, Want: effect.Dead, Reason: reasons.SQL, Code: code}
		if reason := passing(code); reason != "" {
			c.Topic, c.Want, c.Reason = Later, effect.Retry, reason
		}
		c.Start = d.calls(act+`; RAISE EXCEPTION 'no %', event->'body' USING ERRCODE = event->'body'->>'code'`, `"code":"`+code+`"`, nil)
		k.Cases = append(k.Cases, c)
	}
	held := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `LOCK TABLE held IN ACCESS EXCLUSIVE MODE`)
		return err
	}
	k.Cases = append(k.Cases,
		Case{Topic: Succeeds, Name: "acts", Want: effect.Done, Taken: 1, Start: d.calls(act, "", nil)},
		Case{Topic: Refuses, Name: "a constraint checked at commit", Want: effect.Dead, Code: "23503", Start: d.calls(act+`; INSERT INTO child VALUES (7)`, "", nil)},
		Case{Topic: Refuses, Name: "a NUL", Want: effect.Dead, Code: "22P05", Start: d.calls(act, `"nul":"\u0000"`, nil)},
		Case{Topic: Refuses, Name: "half a surrogate", Want: effect.Dead, Code: "22P02", Start: d.calls(act, `"half":"\ud800"`, nil)},
		Case{Topic: Refuses, Name: "a number that nothing holds", Want: effect.Dead, Code: "22003", Start: d.calls(act, `"n":1e400000`, nil)},
		Case{Topic: Succeeds, Name: "a body as deep as a well", Want: effect.Done, Taken: 1, Start: d.calls(act, `"deep":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000), nil)},
		Case{Topic: BreaksBefore, Name: "its connection dies", Want: effect.Retry, Start: d.calls(`PERFORM pg_terminate_backend(pg_backend_pid())`, "", nil)},
		Case{Topic: BreaksAfter, Name: "its connection dies", Want: effect.Retry, Start: d.calls(act+`; PERFORM pg_terminate_backend(pg_backend_pid())`, "", nil)},
		Case{Topic: StallsBefore, Name: "a lock that is not given", Want: effect.Retry, Reason: reasons.LockTimeout, Code: "55P03", Start: d.calls(`PERFORM FROM held; `+act, "", held)},
		Case{Topic: StallsAfter, Name: "a statement without end", Want: effect.Retry, Reason: reasons.SQLTimeout, Code: "57014", Start: d.calls(act+`; PERFORM pg_sleep(60)`, "", nil)},
		Case{Topic: StallsAfter, Name: "the end of its time", Want: effect.Retry, Reason: reasons.SQLTimeout, Limit: 250 * time.Millisecond, Start: d.calls(act+`; PERFORM pg_sleep(60)`, "", nil)},
		Case{Topic: HugeReply, Name: "what the function gives", Want: effect.Done, Taken: 1, Start: d.calls(act+`; RETURN repeat('x', 8000000)`, "", nil)},
		Case{Topic: Secrets, Name: "quotes the event", Want: effect.Dead, Code: "P0001", Start: d.calls(`RAISE EXCEPTION 'no %', event USING DETAIL = event::text, HINT = event::text`, "", nil)},
		Case{Topic: Secrets, Name: "quotes a key", Want: effect.Dead, Code: "23505", Start: d.calls(`INSERT INTO parent VALUES (1, event::text), (1, event::text)`, "", nil)},
		Case{Topic: Repeats, Name: "the document", Want: effect.Done, Taken: 1, Start: d.calls(act, "", nil)},
	)
	return k
}

// passing returns why an error may not occur again, by what PostgreSQL's manual says about its
// class. It is empty for a final error. It is written independently of the kind's own table.
func passing(code string) string {
	switch code {
	case "40001":
		return reasons.Serialization
	case "40P01":
		return reasons.Deadlock
	case "55P03":
		return reasons.LockTimeout
	case "57014":
		return reasons.SQLTimeout
	case "42P05": // names what the session has prepared
		return reasons.SQL
	case "P0001":
		return ""
	}
	switch code[:2] {
	case "22", "23", "42": // the statement or its data
		return ""
	case "08", "25", "53", "57", "58": // the connection, the session, the server
		return reasons.Unavailable
	}
	return reasons.SQL
}

type database struct {
	pool  Pool
	build NewTransactional

	once sync.Once
	mu   sync.Mutex
	made map[string]string // functions, by their bodies
	n    int
}

// function returns the name of a function with that body.
func (d *database) function(tb testing.TB, body string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.once.Do(func() {
		_, err := d.pool.Exec(tb.Context(), `
			CREATE TABLE applied (id text, what text);
			CREATE TABLE held ();
			CREATE TABLE parent (id int PRIMARY KEY, what text);
			CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`)
		if err != nil {
			tb.Fatal(err)
		}
		d.made = map[string]string{}
	})
	if d.made[body] == "" {
		name := fmt.Sprint("act_", len(d.made))
		if _, err := d.pool.Exec(tb.Context(), `CREATE FUNCTION `+name+`(event jsonb) RETURNS text LANGUAGE plpgsql AS $f$ BEGIN `+body+`; RETURN NULL; END $f$`); err != nil {
			tb.Fatal(err)
		}
		d.made[body] = name
	}
	return d.made[body]
}

// calls lets the kind call a function with that body, while another transaction has the locks
// that hold takes.
func (d *database) calls(body, member string, hold func(context.Context, pgx.Tx) error) func(tb testing.TB) Trial {
	return func(tb testing.TB) Trial {
		kind := d.build(tb, d.function(tb, body))
		d.mu.Lock()
		d.n++
		id := fmt.Sprint("event ", d.n)
		d.mu.Unlock()
		event := fmt.Sprintf(`{"id":%q,"content":%q`, id, content)
		if member != "" {
			event += "," + member
		}
		event += "}"
		return Trial{
			Attempt: func(ctx context.Context, number int) effect.Result {
				if hold != nil {
					other, err := d.pool.Begin(tb.Context())
					if err != nil {
						tb.Fatal(err)
					}
					defer other.Rollback(context.WithoutCancel(ctx))
					if err := hold(tb.Context(), other); err != nil {
						tb.Fatal(err)
					}
				}
				call := Call(number)
				call.Event.Body = []byte(event)
				return d.attempt(ctx, tb, kind, call)
			},
			Taken: func() []string {
				rows, err := d.pool.Query(tb.Context(), `SELECT what FROM applied WHERE id = $1`, id)
				if err != nil {
					tb.Fatal(err)
				}
				taken, err := pgx.CollectRows(rows, pgx.RowTo[string])
				if err != nil {
					tb.Fatal(err)
				}
				return taken
			},
		}
	}
}

// attempt acts like the worker: bounded, in a transaction that is committed only if the kind
// reports that it is done.
func (d *database) attempt(ctx context.Context, tb testing.TB, kind effect.Transactional, call *effect.Call) effect.Result {
	tx, err := d.pool.Begin(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if _, err := tx.Exec(tb.Context(), `SELECT set_config('statement_timeout', '1s', true), set_config('lock_timeout', '300ms', true)`); err != nil {
		tb.Fatal(err)
	}
	result := kind.Act(ctx, tx, call)
	if result.Outcome != effect.Done {
		return result
	}
	if err := tx.Commit(ctx); err != nil {
		return effect.SQLFailure(err)
	}
	return result
}
