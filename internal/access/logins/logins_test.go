package logins_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/access/logins"
	"github.com/oncegate/oncegate/internal/access/tokens"
)

type bench struct {
	*logins.Store
	pool   *pgxpool.Pool
	tokens *tokens.Store
	at     time.Time
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{pool: inboxtest.Pool(t), at: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	now := func() time.Time { return b.at }
	b.Store = logins.NewStore(logins.Config{Pool: b.pool, Now: now, Idle: time.Hour, Longest: 3 * time.Hour})
	b.tokens = tokens.NewStore(b.pool, now)
	return b
}

func (b *bench) begin(t *testing.T, o logins.Opening) (string, *logins.Login) {
	t.Helper()
	if o.Scopes == nil {
		o.Scopes = []string{"operate"}
	}
	cookie, login, err := b.Begin(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return cookie, login
}

// state returns the state of the login of a cookie, or "none".
func (b *bench) state(t *testing.T, cookie string) logins.State {
	t.Helper()
	found, err := b.Find(t.Context(), logins.Digest(cookie))
	if errors.Is(err, logins.ErrNotFound) {
		return "none"
	}
	if err != nil {
		t.Fatal(err)
	}
	return found.State
}

func (b *bench) audit(t *testing.T) []string {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), `SELECT actor || ' ' || action || coalesce(' ' || reason, '') FROM audit ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		out = append(out, line)
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return out
}

func ann(method logins.Method) logins.Opening {
	return logins.Opening{Grant: logins.Grant{Actor: "oidc:ann", Scopes: []string{"operate", "read-payload"}, Tenant: "acme"}, Method: method}
}

func TestALoginIsFoundByItsCookieAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cookie, begun := b.begin(t, ann(logins.ByOIDC))
	if !logins.Plausible(cookie) || len(cookie) != 43 {
		t.Fatalf("the cookie has %d characters", len(cookie))
	}
	found, err := b.Find(t.Context(), logins.Digest(cookie))
	if err != nil || found.ID != begun.ID || found.Actor != "oidc:ann" || !slices.Equal(found.Scopes, []string{"operate", "read-payload"}) ||
		found.Tenant != "acme" || found.Method != logins.ByOIDC || !found.ExpiresAt.Equal(b.at.Add(3*time.Hour)) || found.State != logins.Active {
		t.Errorf("%+v %v", found, err)
	}
	other, _ := b.begin(t, ann(logins.ByOIDC))
	if other == cookie {
		t.Error("two logins have one cookie")
	}
	if got := b.state(t, cookie+"x"); got != "none" {
		t.Errorf("another cookie is %s", got)
	}
	var kept bool
	err = b.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM console_login l WHERE to_jsonb(l)::text LIKE '%' || $1 || '%') OR
		EXISTS (SELECT FROM audit a WHERE to_jsonb(a)::text LIKE '%' || $1 || '%')`, cookie).Scan(&kept)
	if err != nil || kept {
		t.Errorf("the cookie is stored: %v %v", kept, err)
	}
	for _, wrong := range []string{"", "x", cookie + "A", cookie[:42], cookie[:42] + "!", strings.Repeat("=", 43)} {
		if logins.Plausible(wrong) {
			t.Errorf("%q is taken for a cookie", wrong)
		}
	}
}

// A login ends when it is unused, when its maximum time is over even if it is in use, and with its
// token.
func TestALoginEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	is := func(cookie string, want logins.State) {
		t.Helper()
		if got := b.state(t, cookie); got != want {
			t.Errorf("at %s the login is %s, want %s", b.at.Format(time.TimeOnly), got, want)
		}
	}
	_, token, err := b.tokens.Create(t.Context(), tokens.New{Name: "ann", Scopes: []string{"admin"}, Actor: "x"})
	if err != nil {
		t.Fatal(err)
	}
	_, short, err := b.tokens.Create(t.Context(), tokens.New{Name: "short", Scopes: []string{"admin"}, Actor: "x", ExpiresAt: b.at.Add(10 * time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	began := b.at
	used, login := b.begin(t, ann(logins.ByOIDC))
	idle, _ := b.begin(t, ann(logins.ByOIDC))
	ofToken, _ := b.begin(t, logins.Opening{Grant: logins.Grant{Actor: token.Actor()}, Method: logins.ByToken, Token: token.ID})
	ofShort, _ := b.begin(t, logins.Opening{Grant: logins.Grant{Actor: short.Actor()}, Method: logins.ByToken, Token: short.ID})
	is(ofShort, logins.Active)
	b.at = began.Add(10 * time.Minute)
	is(ofShort, logins.Expired)
	is(ofToken, logins.Active)
	if _, err := b.tokens.Revoke(t.Context(), tokens.Revocation{ID: token.ID, Actor: "x", Reason: "leaked"}); err != nil {
		t.Fatal(err)
	}
	is(ofToken, logins.Expired)
	for b.at = began.Add(30 * time.Minute); b.at.Before(began.Add(3 * time.Hour)); b.at = b.at.Add(30 * time.Minute) {
		is(used, logins.Active)
		if err := b.Use(t.Context(), login.ID, b.at); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]logins.State{true: logins.Active, false: logins.Expired}[b.at.Before(began.Add(time.Hour))]; b.state(t, idle) != want {
			t.Errorf("at %s the idle login is %s", b.at.Format(time.TimeOnly), b.state(t, idle))
		}
	}
	is(used, logins.Expired)
}

func TestLoginsAreListedEndedAndRevoked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	everybody := ann(logins.ByOIDC)
	everybody.Actor, everybody.Tenant = "oidc:bob", ""
	bob, ofBob := b.begin(t, everybody)
	b.at = b.at.Add(time.Second)
	cookie, ofAnn := b.begin(t, ann(logins.ByOIDC))
	is := func(f logins.Filter, want string) {
		t.Helper()
		rows, err := b.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, row := range rows {
			got = append(got, row.Actor+" "+string(row.State))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%+v lists %q, want %q", f, got, want)
		}
	}
	is(logins.Filter{}, "oidc:ann active, oidc:bob active")
	is(logins.Filter{Tenant: "acme"}, "oidc:ann active")
	is(logins.Filter{Limit: 1, Before: ofAnn.ID}, "oidc:bob active")

	b.at = b.at.Add(time.Second)
	if err := b.End(t.Context(), ofAnn.ID); err != nil {
		t.Fatal(err)
	}
	if err := b.End(t.Context(), ofAnn.ID); err != nil {
		t.Errorf("logging out again: %v", err)
	}
	if b.state(t, cookie) != logins.Ended {
		t.Error("after logging out the login works")
	}
	b.at = b.at.Add(time.Second)
	for _, one := range []struct {
		r    logins.Revocation
		want error
	}{
		{logins.Revocation{ID: ofBob.ID, Actor: "eve"}, inbox.ErrUnexplained},
		{logins.Revocation{ID: ofAnn.ID, Actor: "eve", Reason: "r"}, logins.ErrEnded},
		{logins.Revocation{ID: inbox.NewID(b.at), Actor: "eve", Reason: "r"}, logins.ErrNotFound},
		{logins.Revocation{ID: ofBob.ID, Actor: "eve", Reason: "left"}, nil},
		{logins.Revocation{ID: ofBob.ID, Actor: "eve", Reason: "left"}, logins.ErrEnded},
	} {
		if _, err := b.Revoke(t.Context(), one.r); !errors.Is(err, one.want) {
			t.Errorf("%+v: %v, want %v", one.r, err, one.want)
		}
	}
	if b.state(t, bob) != logins.Ended {
		t.Error("a revoked login works")
	}
	is(logins.Filter{}, "")
	is(logins.Filter{All: true}, "oidc:ann ended, oidc:bob ended")
	want := []string{"oidc:bob login.begin", "oidc:ann login.begin", "oidc:ann login.end", "eve login.revoke left"}
	if got := b.audit(t); !slices.Equal(got, want) {
		t.Errorf("the audit has %q, want %q", got, want)
	}
}

// A browser that logs in again has one login: the previous cookie stops working.
func TestALoginEndsThePreviousOneOfItsBrowser(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first, _ := b.begin(t, ann(logins.ByOIDC))
	o := ann(logins.ByOIDC)
	previous := logins.Digest(first)
	o.Previous = &previous
	second, _ := b.begin(t, o)
	if b.state(t, first) != logins.Ended || b.state(t, second) != logins.Active || first == second {
		t.Errorf("the first login is %s, the second one %s", b.state(t, first), b.state(t, second))
	}
}

func TestALinkWorksOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	link := func(valid time.Duration) (string, error) {
		code, _, err := b.NewLink(t.Context(), logins.NewLink{Grant: logins.Grant{Actor: "link:ann", Scopes: []string{"admin"}, Tenant: "acme"}, Valid: valid, By: "ann"})
		return code, err
	}
	code, err := link(0)
	if err != nil {
		t.Fatal(err)
	}
	b.at = b.at.Add(time.Second)
	// Of several simultaneous uses, only one logs in.
	var mu sync.Mutex
	var cookies []string
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			cookie, begun, err := b.BeginWithLink(t.Context(), code, nil)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && begun.Actor == "link:ann" && begun.Tenant == "acme" && begun.Method == logins.ByLink && slices.Equal(begun.Scopes, []string{"admin"}):
				cookies = append(cookies, cookie)
			case !errors.Is(err, logins.ErrLink):
				t.Errorf("%+v %v", begun, err)
			}
		})
	}
	group.Wait()
	if len(cookies) != 1 || b.state(t, cookies[0]) != logins.Active {
		t.Fatalf("the link began %d logins", len(cookies))
	}
	if _, _, err := b.BeginWithLink(t.Context(), code, nil); !errors.Is(err, logins.ErrLink) {
		t.Errorf("again: %v", err)
	}
	b.at = b.at.Add(time.Second)
	late, err := link(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	b.at = b.at.Add(time.Minute)
	if _, _, err := b.BeginWithLink(t.Context(), late, nil); !errors.Is(err, logins.ErrLink) {
		t.Errorf("after its time: %v", err)
	}
	for _, valid := range []time.Duration{-1, time.Millisecond, time.Hour + 1} {
		if _, err := link(valid); !errors.Is(err, logins.ErrLinkTime) {
			t.Errorf("a link for %s: %v", valid, err)
		}
	}
	want := []string{"ann login.link", "link:ann login.begin", "ann login.link"}
	if got := b.audit(t); !slices.Equal(got, want) {
		t.Errorf("the audit has %q, want %q", got, want)
	}
}

// The statement that every console request runs uses indexes.
func TestALoginIsFoundByAnIndex(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, sql := range map[string]string{"console_login_digest_key": logins.FindLogin, "login_link_pkey": logins.UseLink} {
		args := []any{make([]byte, 32), b.at}[:strings.Count(sql, "$2")+1]
		rows, err := b.pool.Query(t.Context(), `EXPLAIN `+sql, args...)
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
		if rows.Err() != nil || !strings.Contains(plan.String(), name) || strings.Contains(plan.String(), "Seq Scan") {
			t.Errorf("%v\n%s", rows.Err(), plan.String())
		}
	}
}
