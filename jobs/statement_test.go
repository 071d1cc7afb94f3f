package jobs_test

import (
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/sql"
)

func TestSQLStatements(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		statement string
		event     string
		state     inbox.EffectState
		reason    reasons.Reason
		applied   string
	}{
		"named parameters, of any type": {
			`INSERT INTO applied (id, total, at, tags, ok, what) VALUES (@id, @total, @at, @tags, @ok, '$1 @id' || '''@x') -- @y`,
			`{"id": 7, "total": 12.50, "tags": {"a": [1]}, "ok": true}`, inbox.EffectDone, "", `7|12.5|2023-11-14|{"a": [1]}|t|$1 @id'@x`,
		},
		"what is null": {
			`INSERT INTO applied (id, total, at, tags, ok, what) VALUES (@id, @total, @at, @tags, @ok, 'x')`,
			`{"id": 7, "total": null, "tags": null, "ok": null}`, inbox.EffectDone, "", `7||2023-11-14|||x`,
		},
		"a field is missing": {
			`INSERT INTO applied (id, total, at, tags, ok, what) VALUES (@id, @total, @at, @tags, @ok, 'x')`,
			`{"id": 7}`, inbox.EffectDead, reasons.Mapping, "",
		},
		"a value does not fit": {
			`INSERT INTO applied (id, total, at, tags, ok, what) VALUES (@id, @total, @at, @tags, @ok, 'x')`,
			`{"id": "x'); DROP TABLE applied; --", "total": 1, "tags": 1, "ok": true}`, inbox.EffectDead, reasons.SQL, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.exec(`CREATE TABLE applied (id int, total numeric, at date, tags jsonb, ok boolean, what text)`)
			id := b.admit(within, 1)[0]
			b.exec(`UPDATE inbox_body SET body = $1`, []byte(c.event))
			b.exec(`UPDATE inbox_event SET body_offset = 0, body_length = $1, received_at = '2023-11-14T12:00:00Z'`, len(c.event))
			parameters := map[string]sql.Parameter{}
			for name, source := range map[string]string{"id": "body.id", "total": "body.total", "at": "event.received_at", "tags": "body.tags", "ok": "body.ok"} {
				p := compile(t, source, expression.Value)
				parameters[name] = func(call *effect.Call) (any, error) { return p.Value(jobs.Input(call)) }
			}
			kind, err := sql.New(sql.Config{Statement: c.statement, Parameters: parameters})
			if err != nil {
				t.Fatal(err)
			}
			b.client(jobs.Config{Transactionals: map[string]effect.Transactional{within: kind}})
			b.eventuallyState(id, c.state)
			var applied string
			err = b.pool.QueryRow(t.Context(), `SELECT coalesce((SELECT concat_ws('|', coalesce(id::text, ''), coalesce(total::float::text, ''), at::text,
				coalesce(tags::text, ''), coalesce(ok::text, ''), what) FROM applied), '')`).Scan(&applied)
			if err != nil {
				t.Fatal(err)
			}
			applied = strings.Replace(applied, "|true|", "|t|", 1)
			if r := b.row(id); r.Reason != string(c.reason) || applied != c.applied {
				t.Errorf("reason %q, applied %q", r.Reason, applied)
			}
		})
	}
}

func TestStatementsAreChecked(t *testing.T) {
	t.Parallel()
	value := func(*effect.Call) (any, error) { return "", nil }
	for statement, want := range map[string]string{
		`SELECT @a`: "", `SELECT @a, @a, '@b', "@c", $$ @d $$, $x$ @e $x$ /* @f */ -- @g`: "", `SELECT x @> @a`: "",
		`SELECT @b`: "@b has no value", `SELECT 1`: "does not use it", `SELECT $1, @a`: "not as $1",
	} {
		_, err := sql.New(sql.Config{Statement: statement, Parameters: map[string]sql.Parameter{"a": value}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", statement, err, want)
		}
	}
}
