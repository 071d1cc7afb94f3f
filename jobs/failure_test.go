package jobs_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/logtest"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// A dead effect said attempts_exhausted, with an empty code, and nothing said why.
func TestADeadEffectSaysWhyItFailed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.retry.Attempts = 2
	id := b.admit(repeatable, 1)[0]
	var log logtest.Buffer
	const why = "dial tcp 10.1.2.3:443: connect: connection refused"
	b.client(jobs.Config{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Senders: senders(&sink{idempotent: true, answer: func(context.Context, *effect.Call) effect.Result {
			return effect.Result{Outcome: effect.Retry, Reason: reasons.Connect, Cause: why}
		}}),
	})
	b.eventuallyState(id, inbox.EffectDead)
	lister := inboxtest.Lister(b.pool)
	detail, err := lister.Effect(t.Context(), id)
	if err != nil || len(detail.AttemptRows) != 2 {
		t.Fatalf("%+v, %v", detail, err)
	}
	for _, a := range detail.AttemptRows {
		if a.Reason != reasons.Connect || a.Excerpt != why {
			t.Errorf("an attempt says %q, %q", a.Reason, a.Excerpt)
		}
	}
	for _, reason := range []string{"", reasons.Connect, string(reasons.Exhausted)} {
		groups, err := inboxtest.Rows(lister.DeadGroups(t.Context(), read.DeadFilter{Reason: reason}))
		if err != nil || len(groups) != 1 || groups[0].Reason != reasons.Connect {
			t.Errorf("grouped by %q: %+v, %v", reason, groups, err)
		}
	}
	rows, err := inboxtest.Rows(lister.Dead(t.Context(), read.DeadFilter{}, read.PageRequest{}))
	if err != nil || len(rows) != 1 || rows[0].LastReason != reasons.Connect || rows[0].Said != why {
		t.Errorf("%+v, %v", rows, err)
	}
	b.eventually("the log to say so", func() bool {
		return strings.Contains(log.String(), `level=WARN msg="effect dead"`) && strings.Contains(log.String(), "last_reason=connect") && strings.Contains(log.String(), why)
	})
}

// The names are PostgreSQL's own: it raises each under its SQLSTATE.
func TestConditionsAreThoseOfTheServer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for code, name := range effect.Conditions() {
		_, err := b.pool.Exec(t.Context(), `DO $$ BEGIN RAISE `+name+`; END $$`)
		if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || pgErr.Code != code {
			t.Errorf("%s is raised as %v, want %s", name, err, code)
		}
	}
}
