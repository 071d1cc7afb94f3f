package jobs_test

import (
	"context"
	"errors"
	"flag"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
	"github.com/oncegate/oncegate/jobs/effect/sql"
)

func database(tb testing.TB, build effecttest.NewTransactional) effecttest.Kind {
	tb.Helper()
	url, schema := inboxtest.Schema(tb)
	return effecttest.Database(inboxtest.Open(tb, url, schema, session.PoolAdmin, 6), build)
}

func TestSQLConforms(t *testing.T) { //nolint:paralleltest // Run makes it parallel
	effecttest.Run(t, database(t, func(tb testing.TB, function string) effect.Transactional {
		kind, err := sql.New(sql.Config{Call: function})
		if err != nil {
			tb.Fatal(err)
		}
		return kind
	}))
}

// calling is a handler that calls the function with the event's body.
func calling(ctx context.Context, tx pgx.Tx, function string, e effect.Event) error {
	_, err := tx.Exec(ctx, `SELECT `+function+`(jsonb_build_object('body', $1::text::jsonb))`, string(e.Body))
	return err
}

func TestHandlerConforms(t *testing.T) { //nolint:paralleltest // Run makes it parallel
	effecttest.Run(t, database(t, func(_ testing.TB, function string) effect.Transactional {
		return effect.HandlerFunc(func(ctx context.Context, tx pgx.Tx, e effect.Event) error { return calling(ctx, tx, function, e) })
	}))
}

var exhibit = flag.String("exhibit", "", "the wrong kind that an exhibit puts before the suite")

// wrongSQL calls the function, with one of the ways to be wrong.
type wrongSQL struct{ how, function string }

func (w *wrongSQL) Act(ctx context.Context, tx pgx.Tx, call *effect.Call) effect.Result {
	err := calling(ctx, tx, w.function, call.Event)
	if err == nil || w.how == "swallows errors" {
		return effect.Result{Outcome: effect.Done}
	}
	r := effect.SQLFailure(err)
	var pgErr *pgconn.PgError
	switch {
	case w.how == "tries everything again":
		r.Outcome, r.Reason = effect.Retry, reasons.Unavailable
	case w.how == "gives everything up":
		r.Outcome, r.Reason = effect.Dead, reasons.SQL
	case w.how == "quotes the database" && errors.As(err, &pgErr):
		r.Excerpt = pgErr.Message + pgErr.Detail
	}
	return r
}

func TestExhibitSQL(t *testing.T) { //nolint:paralleltest // Run makes it parallel
	if *exhibit == "" {
		return // nothing is on show
	}
	effecttest.Run(t, database(t, func(_ testing.TB, function string) effect.Transactional {
		return &wrongSQL{how: *exhibit, function: function}
	}))
}

func TestTheSuiteFailsWrongTransactionals(t *testing.T) {
	t.Parallel()
	for how, fails := range map[string][]effecttest.Topic{
		"swallows errors":        {effecttest.Refuses, effecttest.Later, effecttest.StallsBefore},
		"tries everything again": {effecttest.Refuses},
		"gives everything up":    {effecttest.Later, effecttest.BreaksAfter, effecttest.StallsBefore, effecttest.StallsAfter},
		"quotes the database":    {effecttest.Secrets},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			effecttest.Fails(t, "TestExhibitSQL", how, fails...)
		})
	}
}
