package tokens_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/access/tokens"
)

// clock is a settable clock.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newStore(t *testing.T) (*tokens.Store, *clock, *pgxpool.Pool) {
	t.Helper()
	c := &clock{at: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	pool := inboxtest.Pool(t)
	return tokens.NewStore(pool, c.now), c, pool
}

func create(t *testing.T, s *tokens.Store, n tokens.New) (string, *tokens.Token) {
	t.Helper()
	if n.Actor == "" {
		n.Actor = "ann"
	}
	if n.Scopes == nil {
		n.Scopes = []string{"read-metadata"}
	}
	text, created, err := s.Create(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return text, created
}

// Tokens, and no other texts, have the form and the checksum of a token.
func TestTheFormOfTokens(t *testing.T) {
	t.Parallel()
	s, _, _ := newStore(t)
	seen := map[string]bool{}
	for i := range 20 {
		text, created := create(t, s, tokens.New{Name: "t" + strings.Repeat("x", i)})
		if len(text) != 52 || !strings.HasPrefix(text, "og_") || !tokens.Plausible(text) || seen[text] {
			t.Fatalf("token %d has %d characters", i, len(text))
		}
		seen[text] = true
		if len(created.Prefix) != 9 || !strings.HasPrefix(text, created.Prefix) {
			t.Errorf("the prefix is %q", created.Prefix)
		}
		last := text[:len(text)-1] + string("01"[i%2])
		for _, wrong := range []string{
			"", "og_", text[:len(text)-1], text + "0", strings.ToUpper(text), "ogs" + text[2:], text[:10] + "!" + text[11:],
			strings.Replace(text, text[5:6], "-", 1),
		} {
			if tokens.Plausible(wrong) {
				t.Errorf("%q is taken for a token", wrong)
			}
		}
		if last != text && tokens.Plausible(last) {
			t.Error("a token with another last character is taken for one")
		}
	}
}

func TestTokensAreFoundByTheirDigestAlone(t *testing.T) {
	t.Parallel()
	s, c, pool := newStore(t)
	text, created := create(t, s, tokens.New{Name: "ci", Scopes: []string{"operate", "read-payload"}, Tenant: "acme", ExpiresAt: c.at.Add(time.Hour)})
	found, err := s.Find(t.Context(), tokens.Digest(text))
	if err != nil || found.ID != created.ID || found.Name != "ci" || !slices.Equal(found.Scopes, []string{"operate", "read-payload"}) ||
		found.Tenant != "acme" || found.CreatedBy != "ann" || !found.CreatedAt.Equal(c.at) || !found.ExpiresAt.Equal(c.at.Add(time.Hour)) ||
		found.LastUsedAt != nil || found.RevokedAt != nil || found.State != tokens.Active || found.Actor() != "token:ci/"+found.ID.String() {
		t.Errorf("%+v %v", found, err)
	}
	if _, err := s.Find(t.Context(), tokens.Digest(text+"x")); !errors.Is(err, tokens.ErrNotFound) {
		t.Errorf("another digest: %v", err)
	}
	// No table contains the token, or a part of it that is longer than its prefix.
	var kept bool
	err = pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM access_token t WHERE to_jsonb(t)::text LIKE '%' || $1 || '%') OR
		EXISTS (SELECT FROM audit a WHERE to_jsonb(a)::text LIKE '%' || $1 || '%')`, text[:len(created.Prefix)+1]).Scan(&kept)
	if err != nil || kept {
		t.Errorf("the token is stored: %v %v", kept, err)
	}
	c.at = c.at.Add(time.Hour)
	if found, err = s.Find(t.Context(), tokens.Digest(text)); err != nil || found.State != tokens.Expired {
		t.Errorf("at its expiry it is %s, %v", found.State, err)
	}
}

func TestWhatNoTokenCanBe(t *testing.T) {
	t.Parallel()
	s, c, pool := newStore(t)
	create(t, s, tokens.New{Name: "taken"})
	read := []string{"read-metadata"}
	for _, one := range []struct {
		n    tokens.New
		want error
	}{
		{tokens.New{Name: "", Scopes: read, Actor: "ann"}, tokens.ErrName},
		{tokens.New{Name: "-a", Scopes: read, Actor: "ann"}, tokens.ErrName},
		{tokens.New{Name: "a b", Scopes: read, Actor: "ann"}, tokens.ErrName},
		{tokens.New{Name: strings.Repeat("a", 64), Scopes: read, Actor: "ann"}, tokens.ErrName},
		{tokens.New{Name: "a", Actor: "ann"}, tokens.ErrScopes},
		{tokens.New{Name: "a", Scopes: read, Actor: "ann", ExpiresAt: c.at}, tokens.ErrExpiry},
		{tokens.New{Name: "a", Scopes: read}, inbox.ErrUnexplained},
		{tokens.New{Name: "taken", Scopes: read, Actor: "ann"}, tokens.ErrNameTaken},
	} {
		if text, _, err := s.Create(t.Context(), one.n); !errors.Is(err, one.want) || text != "" {
			t.Errorf("%+v: %v, want %v", one.n, err, one.want)
		}
	}
	var n int
	if err := pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM access_token) + (SELECT count(*) FROM audit)`).Scan(&n); err != nil || n != 2 {
		t.Errorf("%d rows, %v", n, err)
	}
}

func TestTokensAreListedAndRevoked(t *testing.T) {
	t.Parallel()
	s, c, pool := newStore(t)
	_, everybody := create(t, s, tokens.New{Name: "everybody"})
	c.at = c.at.Add(time.Second)
	text, acme := create(t, s, tokens.New{Name: "acme", Tenant: "acme"})
	c.at = c.at.Add(time.Second)
	_, short := create(t, s, tokens.New{Name: "short", ExpiresAt: c.at.Add(time.Minute)})
	names := func(f tokens.Filter) string {
		t.Helper()
		rows, err := s.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, row := range rows {
			out = append(out, row.Name+" "+string(row.State))
		}
		return strings.Join(out, ", ")
	}
	is := func(f tokens.Filter, want string) {
		t.Helper()
		if got := names(f); got != want {
			t.Errorf("%+v lists %q, want %q", f, got, want)
		}
	}
	is(tokens.Filter{}, "short active, acme active, everybody active")
	is(tokens.Filter{Limit: 1, Before: short.ID}, "acme active")
	is(tokens.Filter{Tenant: "acme"}, "acme active")
	is(tokens.Filter{Tenant: "other"}, "")
	c.at = c.at.Add(time.Hour)
	is(tokens.Filter{}, "acme active, everybody active")

	if _, err := s.Revoke(t.Context(), tokens.Revocation{ID: acme.ID, Actor: "bob"}); !errors.Is(err, inbox.ErrUnexplained) {
		t.Errorf("without a reason: %v", err)
	}
	if _, err := s.Revoke(t.Context(), tokens.Revocation{ID: inbox.NewID(c.at), Actor: "bob", Reason: "leaked"}); !errors.Is(err, tokens.ErrNotFound) {
		t.Errorf("an unknown one: %v", err)
	}
	revoked, err := s.Revoke(t.Context(), tokens.Revocation{ID: acme.ID, Actor: "bob", Reason: "leaked"})
	if err != nil || revoked.State != tokens.Revoked || !revoked.RevokedAt.Equal(c.at) {
		t.Fatalf("%+v %v", revoked, err)
	}
	c.at = c.at.Add(time.Second)
	if _, err := s.Revoke(t.Context(), tokens.Revocation{ID: acme.ID, Actor: "bob", Reason: "again"}); !errors.Is(err, tokens.ErrRevoked) {
		t.Errorf("again: %v", err)
	}
	if found, err := s.Find(t.Context(), tokens.Digest(text)); err != nil || found.State != tokens.Revoked || !found.RevokedAt.Equal(*revoked.RevokedAt) {
		t.Errorf("%+v %v", found, err)
	}
	is(tokens.Filter{All: true}, "short expired, acme revoked, everybody active")
	// The name of a revoked token is free; the name of an expired one is not.
	create(t, s, tokens.New{Name: "acme"})
	if found, err := s.ReadNamed(t.Context(), "everybody"); err != nil || found.ID != everybody.ID {
		t.Errorf("%+v %v", found, err)
	}
	var audited []string
	rows, err := pool.Query(t.Context(), `SELECT actor || ' ' || action || ' ' || coalesce(reason, '-') || ' ' || coalesce(after->>'name', before->>'name') FROM audit ORDER BY id`)
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
	want := []string{"ann token.create - everybody", "ann token.create - acme", "ann token.create - short", "bob token.revoke leaked acme", "ann token.create - acme"}
	if rows.Err() != nil || !slices.Equal(audited, want) {
		t.Errorf("the audit has %q, want %q", audited, want)
	}
}

// The use of a token is written at most once per minute, by any number of processes.
func TestTheUseOfATokenIsWrittenOnceAMinute(t *testing.T) {
	t.Parallel()
	s, c, _ := newStore(t)
	text, created := create(t, s, tokens.New{Name: "ci"})
	began := c.at
	for _, one := range []struct{ after, want time.Duration }{{0, 0}, {59 * time.Second, 0}, {time.Minute, time.Minute}, {90 * time.Second, time.Minute}} {
		if err := s.Use(t.Context(), created.ID, began.Add(one.after)); err != nil {
			t.Fatal(err)
		}
		found, err := s.Find(t.Context(), tokens.Digest(text))
		if err != nil || found.LastUsedAt == nil || !found.LastUsedAt.Equal(began.Add(one.want)) {
			t.Errorf("a use after %s is recorded as %v, %v", one.after, found.LastUsedAt, err)
		}
	}
}

// The statement that every request with a token runs probes one index.
func TestATokenIsFoundByAnIndex(t *testing.T) {
	t.Parallel()
	_, _, pool := newStore(t)
	rows, err := pool.Query(t.Context(), `EXPLAIN `+tokens.FindToken, make([]byte, 32))
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
	if rows.Err() != nil || !strings.Contains(plan.String(), "access_token_digest_key") || strings.Contains(plan.String(), "Seq Scan") {
		t.Errorf("%v\n%s", rows.Err(), plan.String())
	}
}
