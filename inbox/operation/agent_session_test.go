package operation_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/session"
)

// A session is found by its token alone, in its source alone; it ends at its time, when its holder
// ends it and when it is revoked, by its id or by what it is of.
func TestAgentSessions(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	agents, others := inboxtest.Source(t, pool, "agents"), inboxtest.Source(t, pool, "others")
	store, lister := operation.NewAgentSessions(pool), inboxtest.Lister(pool)
	now := time.Now().UTC().Truncate(time.Microsecond)
	opened := 0
	open := func(token string, s operation.AgentSession) operation.AgentSession {
		t.Helper()
		opened++
		s.ID, s.SourceID = inbox.NewID(now.Add(time.Duration(opened)*time.Millisecond)), agents.ID
		if s.CreatedAt.IsZero() {
			s.CreatedAt, s.ExpiresAt = now, now.Add(time.Hour)
		}
		if err := store.Open(t.Context(), operation.TokenDigest(token), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := open("first", operation.AgentSession{Credential: "engine", Run: "42", Operations: []string{"charge"}, NewKeys: 5, Contract: "2"})
	second := open("second", operation.AgentSession{Credential: "engine", Run: "42"})
	other := open("other", operation.AgentSession{Credential: "clerk", Run: "7"})
	over := open("over", operation.AgentSession{Credential: "engine", Run: "41", CreatedAt: now.Add(-2 * time.Hour), ExpiresAt: now.Add(-time.Hour)})

	found, err := store.Find(t.Context(), agents.ID, operation.TokenDigest("first"))
	if err != nil || found.ID != first.ID || found.Credential != "engine" || found.Run != "42" || !slices.Equal(found.Operations, []string{"charge"}) ||
		found.NewKeys != 5 || found.Contract != "2" || !found.ExpiresAt.Equal(first.ExpiresAt) || found.RevokedAt != nil || found.Ended(now) {
		t.Errorf("%+v %v, want %+v", found, err, first)
	}
	if found, err = store.Find(t.Context(), agents.ID, operation.TokenDigest("second")); err != nil || found.Operations != nil {
		t.Errorf("a session of all operations has %v, %v", found, err)
	}
	if found, err = store.Find(t.Context(), agents.ID, operation.TokenDigest("over")); err != nil || !found.Ended(now) {
		t.Errorf("an expired session is %+v, %v", found, err)
	}
	for token, source := range map[string]int32{"unknown": agents.ID, "First": agents.ID, "first": others.ID} {
		if _, err := store.Find(t.Context(), source, operation.TokenDigest(token)); !errors.Is(err, inbox.ErrNotFound) {
			t.Errorf("the token %s is of source %d: %v", token, source, err)
		}
	}
	if err := store.Open(t.Context(), operation.TokenDigest("first"), &second); err == nil || strings.Contains(err.Error(), "digest") && strings.Contains(err.Error(), "\\x") {
		t.Errorf("two sessions have one token: %v", err)
	}

	states := func(f read.AgentSessionFilter) string {
		t.Helper()
		rows, err := inboxtest.Rows(lister.AgentSessions(t.Context(), f))
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, r := range rows {
			out = append(out, r.Run+" "+r.Credential+" "+r.State)
		}
		slices.Sort(out)
		return strings.Join(out, ", ")
	}
	is := func(f read.AgentSessionFilter, want string) {
		t.Helper()
		if got := states(f); got != want {
			t.Errorf("%+v lists %q, want %q", f, got, want)
		}
	}
	is(read.AgentSessionFilter{}, "41 engine expired, 42 engine open, 42 engine open, 7 clerk open")
	is(read.AgentSessionFilter{Source: "others"}, "")
	is(read.AgentSessionFilter{Run: "42", Open: true, Limit: 1}, "42 engine open")
	is(read.AgentSessionFilter{Credential: "clerk"}, "7 clerk open")
	newest, err := lister.AgentSessions(t.Context(), read.AgentSessionFilter{Source: "agents", Open: true, Limit: 1})
	if err != nil || len(newest.Data) != 1 || newest.Data[0].ID != other.ID {
		t.Fatalf("the first page has %+v, %v", newest.Data, err)
	}
	is(read.AgentSessionFilter{Source: "agents", Open: true, Cursor: newest.Next}, "42 engine open, 42 engine open")

	if err := store.End(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	found, err = store.Find(t.Context(), agents.ID, operation.TokenDigest("first"))
	if err != nil || found.RevokedAt == nil || !found.Ended(now) {
		t.Fatalf("an ended session is %+v, %v", found, err)
	}
	ended := *found.RevokedAt
	if err := store.End(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	if found, err = store.Find(t.Context(), agents.ID, operation.TokenDigest("first")); err != nil || !found.RevokedAt.Equal(ended) {
		t.Errorf("ending it again changes %v to %v, %v", ended, found.RevokedAt, err)
	}

	revoke := func(r decide.RevokeAgentSessions, want ...inbox.ID) {
		t.Helper()
		r.Actor, r.Reason = "ann", "a laptop was lost"
		got, err := r.Revoke(t.Context(), pool)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v revokes %v, %v, want %v", r, got, err, want)
		}
	}
	revoke(decide.RevokeAgentSessions{Source: "others"})
	revoke(decide.RevokeAgentSessions{Source: "agents", Run: "42", Credential: "clerk"})
	revoke(decide.RevokeAgentSessions{ID: over.ID})
	revoke(decide.RevokeAgentSessions{ID: other.ID}, other.ID)
	revoke(decide.RevokeAgentSessions{Source: "agents", Run: "42"}, second.ID)
	revoke(decide.RevokeAgentSessions{Source: "agents"})
	is(read.AgentSessionFilter{}, "41 engine expired, 42 engine revoked, 42 engine revoked, 7 clerk revoked")
	if _, err := (decide.RevokeAgentSessions{Actor: "ann", Reason: "all", Run: "42"}).Revoke(t.Context(), pool); !errors.Is(err, decide.ErrNoSessions) {
		t.Errorf("sessions of no source: %v", err)
	}
	if _, err := (decide.RevokeAgentSessions{Source: "agents", Actor: "ann"}).Revoke(t.Context(), pool); !errors.Is(err, inbox.ErrUnexplained) {
		t.Errorf("without a reason: %v", err)
	}
	var audited []string
	rows, err := pool.Query(t.Context(), `SELECT actor || ' ' || object || ' ' || (after->>'sessions') FROM audit WHERE action = 'session.revoke' ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		audited = append(audited, line)
	}
	if want := []string{"ann session/" + other.ID.String() + " 1", "ann source/agents 1"}; rows.Err() != nil || !slices.Equal(audited, want) {
		t.Errorf("the audit has %q, want %q", audited, want)
	}
}

// The statement of every call under a session is one probe of an index, however many sessions there are.
func TestASessionIsFoundByAnIndex(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 1)
	rows, err := pool.Query(t.Context(), `EXPLAIN `+operation.FindAgentSession, make([]byte, 32), 1)
	if err != nil {
		t.Fatal(err)
	}
	var plan strings.Builder
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(line + "\n")
	}
	if rows.Err() != nil || !strings.Contains(plan.String(), "agent_session_digest_key") || strings.Contains(plan.String(), "Seq Scan") {
		t.Errorf("%v\n%s", rows.Err(), plan.String())
	}
}
