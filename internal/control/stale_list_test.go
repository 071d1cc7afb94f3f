package control_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/migrations"
)

// staleLists is a service whose lists are read from a standby.
type staleLists struct {
	*testing.T

	control.Caller
	primary, there *pgxpool.Pool
	standby        *devpg.Server
	age            *session.DataAge
}

func newStaleLists(t *testing.T) *staleLists {
	t.Helper()
	const schema = "oncegate"
	server, err := devpg.Start(t.Context(), devpg.Config{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.WithoutCancel(t.Context())) })
	if err := migrations.Up(t.Context(), server.DSN(), schema); err != nil {
		t.Fatal(err)
	}
	s := &staleLists{T: t, primary: inboxtest.Open(t, server.DSN(), schema, session.PoolAdmin, 4)}
	if _, err := s.primary.Exec(t.Context(), waitingRows); err != nil {
		t.Fatal(err)
	}
	if s.standby, err = server.StartStandby(t.Context(), "standby"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.standby.Stop(context.WithoutCancel(t.Context())) })
	s.there = inboxtest.Open(t, s.standby.DSN(), schema, session.PoolList, 3)
	s.age = session.NewDataAge(s.primary, s.there, time.Now)
	service, err := control.NewService(control.Config{
		Pool: s.primary, Lists: s.there, Deciding: inboxtest.Open(t, server.DSN(), schema, session.PoolList, 3), Freshness: s.age.Freshness,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Caller = &control.Local{Service: service, Access: control.Everything("ann")}
	return s
}

// dismiss dismisses the conflicts of shop, of which there must be n.
func (s *staleLists) dismiss(n int) {
	s.Helper()
	ask := control.DismissConflictsRequest{Filter: control.ConflictFilter{Source: "shop"}, DryRun: true}
	out, err := control.Call(s.Context(), s, &control.DismissConflicts, ask)
	if err == nil {
		out, err = control.Call(s.Context(), s, &control.DismissConflicts, control.DismissConflictsRequest{
			Explained: control.Explained{Reason: "the sender rewrote its notes"}, Seen: out.Seen,
		})
	}
	if err != nil || out.Dismissed != n {
		s.Fatalf("dismissed %+v, %v, want %d", out, err, n)
	}
}

func (s *staleLists) replay(function, state string) {
	s.Helper()
	if _, err := s.there.Exec(s.Context(), "SELECT "+function+"()"); err != nil {
		s.Fatal(err)
	}
	inboxtest.Until(s, "replay to be "+state, func() bool {
		var is string
		return s.there.QueryRow(s.Context(), "SELECT pg_get_wal_replay_pause_state()").Scan(&is) == nil && is == state
	})
}

// TestDecisionsDoNotBelieveAStaleList: a decision about what a list shows, and what has changed since, is refused.
func TestDecisionsDoNotBelieveAStaleList(t *testing.T) {
	t.Parallel()
	s := newStaleLists(t)
	inboxtest.Until(t, "the standby to keep up", func() bool { f := s.age.Measure(t.Context()); return f.Err == nil && f.Age(time.Now()) < time.Second })
	s.replay("pg_wal_replay_pause", "paused")
	why := control.Explained{Reason: "the sender rewrote its notes"}
	s.dismiss(3)
	page, err := control.Call(t.Context(), s, &control.ListConflicts, control.ListConflictsRequest{Waiting: true, ConflictFilter: control.ConflictFilter{Source: "shop"}})
	if err != nil || len(page.Data) != 3 {
		t.Fatalf("the stale list shows %d conflicts, %v, want 3", len(page.Data), err)
	}
	shown := page.Data[0]
	inboxtest.Until(t, "the data to be old", func() bool { s.age.Measure(t.Context()); return s.age.Freshness().Age(time.Now()) > time.Second })
	_, err = control.Call(t.Context(), s, &control.AdmitConflict, control.AdmitConflictRequest{Match: control.Match{IfMatch: shown.Tag()}, Explained: why, ID: shown.ID})
	if control.ProblemOf(err).Code != control.CodePrecondition {
		t.Errorf("a decision about what a stale list showed: %v, want %s", err, control.CodePrecondition)
	}
	s.replay("pg_wal_replay_resume", "not paused")
	inboxtest.Until(t, "the list to show it", func() bool {
		s.age.Measure(t.Context())
		page, err := control.Call(t.Context(), s, &control.ListConflicts, control.ListConflictsRequest{Waiting: true, ConflictFilter: control.ConflictFilter{Source: "shop"}})
		return err == nil && len(page.Data) == 0 && s.age.Freshness().Age(time.Now()) < time.Second
	})
}

// TestAStandbyThatIsAwayStopsOnlyLists, which say so.
func TestAStandbyThatIsAwayStopsOnlyLists(t *testing.T) {
	t.Parallel()
	s := newStaleLists(t)
	s.age.Measure(t.Context())
	if err := s.standby.Crash(); err != nil {
		t.Fatal(err)
	}
	if f := s.age.Measure(t.Context()); f.Err == nil {
		t.Error("the database of the lists counts as one that answers")
	}
	inboxtest.Until(t, "the list to fail", func() bool {
		_, err := control.Call(t.Context(), s, &control.ListConflicts, control.ListConflictsRequest{})
		problem := control.ProblemOf(err)
		return err != nil && problem.Code == control.CodeUnavailable && strings.Contains(problem.Detail, "database.list_url")
	})
	s.dismiss(3)
}
