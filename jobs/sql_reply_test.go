package jobs_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/sql"
)

// The result of an effect is the value of its function or the rows of RETURNING, as JSON, if the target keeps it. A reply that is
// too large is not kept, and void has none; the effect is done all the same.
func TestSQLKeepsItsReply(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`CREATE TABLE applied (id bigint GENERATED ALWAYS AS IDENTITY, what text, paid numeric, at timestamptz, ok boolean, more jsonb)`)
	type target struct {
		sql.Config
		want, said string
	}
	none := map[string]sql.Parameter{}
	returning := func(statement string) sql.Config { return sql.Config{Statement: statement, Parameters: none} }
	targets := map[string]target{
		"json":    {Config: sql.Config{Call: "gives_json"}, want: `{"a": [1, null]}`},
		"text":    {Config: sql.Config{Call: "gives_text"}, want: `"a \"text\""`},
		"bigint":  {Config: sql.Config{Call: "gives_bigint"}, want: `9007199254740993`},
		"nothing": {Config: sql.Config{Call: "gives_void"}},
		"null":    {Config: sql.Config{Call: "gives_null"}, want: `null`},
		"set":     {Config: sql.Config{Call: "gives_set"}, want: `[1,2]`},
		"rows": {
			Config: returning(`INSERT INTO applied (what, paid, at, ok, more) VALUES ('é', 1.10, '2026-01-02 03:04:05Z', true, '{"k": 1}'), (NULL, 'NaN', NULL, false, NULL) RETURNING what, paid, at AT TIME ZONE 'UTC' AS at, ok, more`),
			want:   `[{"what":"é","paid":1.10,"at":"2026-01-02 03:04:05","ok":true,"more":{"k": 1}},{"what":null,"paid":"NaN","at":null,"ok":false,"more":null}]`,
		},
		"no row":       {Config: returning(`UPDATE applied SET what = what WHERE false RETURNING id`), want: `[]`},
		"no returning": {Config: returning(`UPDATE applied SET what = what WHERE false`)},
		"too much":     {Config: returning(`SELECT repeat('x', 1000) AS x FROM generate_series(1, 100)`), said: "the rows that it returned are over 64 KiB, and are not kept"},
	}
	for name, body := range map[string]string{
		"json RETURNS jsonb": `'{"a":[1,null]}'::jsonb`, "text RETURNS text": `'a "text"'`, "bigint RETURNS bigint": `9007199254740993`,
		"null RETURNS text": `NULL`, "set RETURNS SETOF int": `generate_series(1, 2)`, "void RETURNS void": `NULL::void`,
	} {
		var function, returns string
		_, _ = fmt.Sscanf(name, "%s", &function)
		returns = name[len(function)+1:]
		if function == "void" {
			b.exec(`CREATE FUNCTION gives_void(event jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN END $$`)
			continue
		}
		b.exec(`CREATE FUNCTION gives_` + function + `(event jsonb) ` + returns + ` LANGUAGE sql AS $$ SELECT ` + body + ` $$`)
	}
	for name, target := range targets {
		target.KeepReply = true
		kind, err := sql.New(target.Config)
		if err != nil {
			t.Fatal(err)
		}
		id := b.admit(within, 1)[0]
		b.workOff(jobs.Config{Logger: slog.New(slog.DiscardHandler), Transactionals: map[string]effect.Transactional{within: kind}})
		b.eventuallyState(id, inbox.EffectDone)
		got := b.text(`SELECT coalesce(convert_from(result, 'UTF8'), '') FROM effect WHERE id = $1`, id)
		said := b.text(`SELECT coalesce(excerpt, '') FROM effect_attempt WHERE effect_id = $1`, id)
		if got != target.want || said != target.said {
			t.Errorf("%s: the result is %s, and people are told %q; want %s and %q", name, got, said, target.want, target.said)
		}
	}
	// Without the key nothing is kept.
	kind, err := sql.New(sql.Config{Call: "gives_json"})
	if err != nil {
		t.Fatal(err)
	}
	id := b.admit(within, 1)[0]
	b.workOff(jobs.Config{Logger: slog.New(slog.DiscardHandler), Transactionals: map[string]effect.Transactional{within: kind}})
	if got := b.count(`SELECT count(*) FROM effect WHERE id = $1 AND state = 'done' AND result IS NULL`, id); got != 1 {
		t.Error("a reply was kept that was not asked for")
	}
}
