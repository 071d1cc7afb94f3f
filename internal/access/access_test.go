package access_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/access"
	"github.com/oncegate/oncegate/internal/access/logins"
	"github.com/oncegate/oncegate/internal/access/tokens"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/session"
)

// bench is an Access with a clock that the test sets and a pool whose statements are counted.
type bench struct {
	*access.Access
	tokens    *tokens.Store
	logins    *logins.Store
	pool      *pgxpool.Pool
	at        time.Time
	questions atomic.Int64
	uses      atomic.Int64
	log       logs
}

// logs keeps what is logged.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TraceQueryStart counts the statements that look for a token or a login.
func (b *bench) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "digest = $1") {
		b.questions.Add(1)
	}
	if strings.Contains(data.SQL, "SET used_at") || strings.Contains(data.SQL, "SET last_used_at") {
		b.uses.Add(1)
	}
	return ctx
}

func (b *bench) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// asked is how many such statements there were since it was asked last.
func (b *bench) asked() int64 { return b.questions.Swap(0) }

func newBench(t *testing.T, change func(*access.Config)) *bench {
	t.Helper()
	b := &bench{at: time.Now().UTC().Truncate(time.Second)}
	url, schema := inboxtest.Schema(t)
	plain := inboxtest.Open(t, url, schema, session.PoolAdmin, 4)
	traced := plain.Config().Copy()
	traced.ConnConfig.Tracer = b
	pool, err := pgxpool.NewWithConfig(t.Context(), traced)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	now := func() time.Time { return b.at }
	b.pool, b.tokens, b.logins = pool, tokens.NewStore(pool, now), logins.NewStore(logins.Config{Pool: pool, Now: now})
	cfg := access.Config{Tokens: b.tokens, Logins: b.logins, Now: now, Home: "/console", Logger: slog.New(slog.NewTextHandler(&b.log, nil))}
	if change != nil {
		change(&cfg)
	}
	if b.Access, err = access.New(cfg); err != nil {
		t.Fatal(err)
	}
	return b
}

// create makes a token.
func (b *bench) create(t *testing.T, n tokens.New) (string, *tokens.Token) {
	t.Helper()
	n.Actor = "test"
	if n.Scopes == nil {
		n.Scopes = []string{"operate"}
	}
	text, created, err := b.tokens.Create(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return text, created
}

// bearer asks who makes a request with the token.
func (b *bench) bearer(t *testing.T, token, peer string) (control.Access, error) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/events", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	r.RemoteAddr = peer + ":1234"
	return b.Authenticate(r)
}

func code(err error) control.Code {
	if err == nil {
		return ""
	}
	return control.ProblemOf(err).Code
}

func TestAuthenticateByToken(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	text, created := b.create(t, tokens.New{Name: "ci", Tenant: "acme", Scopes: []string{"read-payload", "operate", "of-a-later-version"}, ExpiresAt: b.at.Add(time.Hour)})
	got, err := b.bearer(t, text, "192.0.2.1")
	if err != nil || got.Actor != "token:ci" || got.Tenant != "acme" || got.Scopes.String() != "read-payload, operate" {
		t.Fatalf("%+v %v", got, err)
	}
	found, err := b.tokens.Read(t.Context(), created.ID)
	if err != nil || found.LastUsedAt == nil || !found.LastUsedAt.Equal(b.at) {
		t.Errorf("the use is recorded as %v, %v", found.LastUsedAt, err)
	}
	for _, headers := range [][]string{{"Bearer"}, {"Bearer "}, {"Basic " + text}, {text}, {"Bearer " + text, "Bearer " + text}, {"Bearer " + text + " x"}, {""}} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header["Authorization"] = headers
		if _, err := b.Authenticate(r); code(err) != control.CodeUnauthorized || strings.Contains(err.Error(), text) {
			t.Errorf("%v: %v", headers, err)
		}
	}
	if _, err := b.Authenticate(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)); code(err) != control.CodeUnauthorized {
		t.Errorf("without anything: %v", err)
	}
	if _, err := b.bearer(t, "ogs_"+strings.Repeat("a", 43), "192.0.2.1"); code(err) != control.CodeUnauthorized || !strings.Contains(err.Error(), "agent session") {
		t.Errorf("the token of an agent session: %v", err)
	}
	b.at = b.at.Add(time.Hour)
	if _, err := b.bearer(t, text, "192.0.2.1"); code(err) != control.CodeUnauthorized || !strings.Contains(err.Error(), "expired") {
		t.Errorf("after its expiry: %v", err)
	}
}

// A process notices a revocation within two seconds.
func TestARevokedTokenStopsWorking(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	text, created := b.create(t, tokens.New{Name: "ci"})
	if _, err := b.bearer(t, text, "192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.tokens.Revoke(t.Context(), tokens.Revocation{ID: created.ID, Actor: "x", Reason: "leaked"}); err != nil {
		t.Fatal(err)
	}
	b.at = b.at.Add(2 * time.Second)
	if _, err := b.bearer(t, text, "192.0.2.1"); code(err) != control.CodeUnauthorized || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("%v", err)
	}
}

// genuineForm gives texts in the form of tokens, with the right checksum, which no table has: whoever
// guesses makes such texts.
func genuineForm(n int) []string {
	const bigDigits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	out := make([]string, n)
	for i := range out {
		// The checksum is CRC-32 in six digits of base 62.
		body := fmt.Sprintf("%043d", i)
		sum, text := crc32.ChecksumIEEE([]byte(body)), ""
		for range 6 {
			text = string(bigDigits[sum%62]) + text
			sum /= 62
		}
		out[i] = "og_" + body + text
	}
	return out
}

// Whoever guesses tokens buys few lookups, and holds up nobody whose token has proved itself.
func TestGuessedTokensBuyNoLookups(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	known, _ := b.create(t, tokens.New{Name: "known"})
	for range 50 {
		if _, err := b.bearer(t, known, "192.0.2.1"); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.asked(); n != 1 {
		t.Errorf("50 requests in one moment took %d lookups, want 1", n)
	}
	for _, wrong := range []string{"x", "og_", known + "0", known[:51], strings.Repeat("a", 1000)} {
		if _, err := b.bearer(t, wrong, "192.0.2.1"); code(err) != control.CodeUnauthorized {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	if n := b.asked(); n != 0 {
		t.Errorf("what is no token took %d lookups", n)
	}
	guesses := genuineForm(3000)
	got := map[control.Code]int{}
	for _, guess := range guesses[:1000] {
		_, err := b.bearer(t, guess, "198.51.100.7")
		got[code(err)]++
	}
	if n := b.asked(); n != 20 || got[control.CodeUnauthorized] != 20 || got[control.CodeTooMany] != 980 {
		t.Errorf("1000 guesses of one peer took %d lookups and got %v", n, got)
	}
	// One network of IPv6 is one peer, and all peers share a bound too.
	for i, guess := range guesses[1000:1100] {
		b.bearer(t, guess, fmt.Sprintf("[2001:db8::%x]", i+1)) //nolint:errcheck // only the lookups count
	}
	if n := b.asked(); n != 20 {
		t.Errorf("100 guesses of one IPv6 network took %d lookups", n)
	}
	for i, guess := range guesses[1100:] {
		b.bearer(t, guess, fmt.Sprintf("10.1.%d.%d", i/250, i%250)) //nolint:errcheck // only the lookups count
	}
	if n := b.asked(); n != 160 {
		t.Errorf("1900 guesses of 1900 peers took %d lookups, want what is left of 200", n)
	}
	// Nothing is left for unknown tokens, and the known one is read again all the same.
	b.at = b.at.Add(2 * time.Second)
	for i, guess := range guesses[:500] {
		b.bearer(t, guess, fmt.Sprintf("10.2.%d.%d", i/250, i%250)) //nolint:errcheck // only the lookups count
	}
	b.asked()
	if _, err := b.bearer(t, known, "10.2.0.1"); err != nil || b.asked() != 1 {
		t.Errorf("a known token: %v", err)
	}
	fresh, _ := b.create(t, tokens.New{Name: "fresh"})
	if _, err := b.bearer(t, fresh, "203.0.113.1"); code(err) != control.CodeTooMany {
		t.Errorf("a new token in the flood: %v", err)
	}
	// A genuine token is not charged for.
	b.at = b.at.Add(time.Second)
	for i := range 40 {
		text, _ := b.create(t, tokens.New{Name: fmt.Sprintf("genuine-%d", i)})
		if _, err := b.bearer(t, text, "203.0.113.1"); err != nil {
			t.Fatalf("genuine token %d: %v", i, err)
		}
	}
}

// The peer is the sender, and not the proxy that is trusted to name it.
func TestPeersBehindATrustedProxy(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *access.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} })
	guesses := genuineForm(60)
	ask := func(i int, remote, forwarded string) control.Code {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+guesses[i])
		r.RemoteAddr = remote + ":1"
		r.Header.Set("X-Forwarded-For", forwarded)
		_, err := b.Authenticate(r)
		return code(err)
	}
	for i := range 20 {
		// What the sender itself wrote in front of it counts for nothing.
		if got := ask(i, "10.0.0.1", fmt.Sprintf("203.0.113.%d, 192.0.2.9, 10.0.0.2", i)); got != control.CodeUnauthorized {
			t.Fatalf("guess %d: %s", i, got)
		}
	}
	if got := ask(20, "10.0.0.1", "192.0.2.9"); got != control.CodeTooMany {
		t.Errorf("the same sender: %s", got)
	}
	if got := ask(21, "10.0.0.1", "192.0.2.10"); got != control.CodeUnauthorized {
		t.Errorf("another sender: %s", got)
	}
	for i := range 20 {
		ask(22+i, "192.0.2.77", fmt.Sprintf("203.0.113.%d", i))
	}
	if got := ask(50, "192.0.2.77", "203.0.113.99"); got != control.CodeTooMany {
		t.Errorf("whoever is no proxy names senders: %s", got)
	}
}

// browser keeps the cookies of one browser and sends what a browser sends. It follows no redirect.
type browser struct {
	t       *testing.T
	handler http.Handler
	host    string // as the browser's address bar has it
	scheme  string
	cookies map[string]*http.Cookie
}

func newBrowser(t *testing.T, b *bench, address string) *browser {
	t.Helper()
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	b.Mount(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		got, err := b.Authenticate(r)
		if err != nil {
			w.WriteHeader(control.ProblemOf(err).Code.Meaning().Status)
			fmt.Fprint(w, err)
			return
		}
		fmt.Fprint(w, got.Actor, " ", got.Scopes, " ", got.Tenant)
	})
	return &browser{t: t, handler: mux, host: at.Host, scheme: at.Scheme, cookies: map[string]*http.Cookie{}}
}

type page struct {
	status   int
	body     string
	location string
	header   http.Header
}

func (b *browser) do(method, path string, form url.Values, header ...string) page {
	b.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r := httptest.NewRequestWithContext(b.t.Context(), method, path, body)
	r.Host = b.host
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if method == http.MethodPost {
		r.Header.Set("Origin", b.scheme+"://"+b.host)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i+1] == "" {
			r.Header.Del(header[i])
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	for _, cookie := range b.cookies {
		r.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value})
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	for _, cookie := range w.Result().Cookies() {
		if strings.HasPrefix(cookie.Name, "__Host-") && (!cookie.Secure || cookie.Path != "/" || cookie.Domain != "" || b.scheme != "https") {
			b.t.Errorf("a browser at %s does not take the cookie %v", b.scheme, cookie)
			continue
		}
		if cookie.Secure && b.scheme != "https" {
			b.t.Errorf("a browser at %s does not take the cookie %v", b.scheme, cookie)
			continue
		}
		if !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode {
			b.t.Errorf("the cookie %v is not HttpOnly and SameSite=Lax", cookie)
		}
		if cookie.MaxAge < 0 {
			delete(b.cookies, cookie.Name)
			continue
		}
		b.cookies[cookie.Name] = cookie
	}
	return page{status: w.Code, body: w.Body.String(), location: w.Header().Get("Location"), header: w.Header()}
}

// who is who the browser is, or what it is told.
func (b *browser) who() string {
	b.t.Helper()
	return b.do(http.MethodGet, "/console", nil).body
}

func (b *browser) login(token string) page {
	b.t.Helper()
	return b.do(http.MethodPost, "/login", url.Values{"token": {token}})
}

func (b *browser) is(p page, what string, status int, part string) {
	b.t.Helper()
	if p.status != status || !strings.Contains(p.body+p.location, part) {
		b.t.Errorf("%s: %d %s %s, want %d with %q", what, p.status, p.location, p.body, status, part)
	}
}

func TestLoginWithAToken(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]struct{ address, cookie string }{
		"https":     {"https://oncegate.example", "__Host-oncegate"},
		"localhost": {"http://localhost:8081", "oncegate"},
		"loopback":  {"http://127.0.0.1:8081", "oncegate"},
		"IPv6":      {"http://[::1]:8081", "oncegate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(c *access.Config) {
				if strings.HasPrefix(at.address, "https") {
					c.URL = at.address
				}
			})
			text, _ := b.create(t, tokens.New{Name: "ann", Tenant: "acme", Scopes: []string{"operate"}})
			w := newBrowser(t, b, at.address)
			w.is(w.do(http.MethodGet, "/login?return=/console/events%3Fsource=x", nil), "the page", 200, `name="return" value="/console/events?source=x"`)
			w.is(w.login("og_wrong"), "a wrong token", 401, "not a token of")
			w.is(w.do(http.MethodPost, "/login", url.Values{"token": {" " + text + "\n"}, "return": {"/console/events?source=x"}}), "the token", 303, "/console/events?source=x")
			if w.cookies[at.cookie] == nil || len(w.cookies) != 1 {
				t.Fatalf("the cookies are %v, want %s", w.cookies, at.cookie)
			}
			if got := w.who(); got != "token:ann operate acme" {
				t.Errorf("the browser is %q", got)
			}
			value := w.cookies[at.cookie].Value
			// Logging in again changes the value, and the one of before works no more.
			w.is(w.login(text), "again", 303, "/console")
			if w.cookies[at.cookie].Value == value {
				t.Error("a second login keeps the value of the cookie")
			}
			old := newBrowser(t, b, at.address)
			old.cookies[at.cookie] = &http.Cookie{Name: at.cookie, Value: value}
			if got := old.who(); !strings.Contains(got, "log in again") {
				t.Errorf("the value of before is %q", got)
			}
			kept := w.cookies[at.cookie]
			w.is(w.do(http.MethodPost, "/logout", url.Values{}), "logging out", 303, "/login")
			if len(w.cookies) != 0 {
				t.Errorf("after logging out the browser has %v", w.cookies)
			}
			w.cookies[at.cookie] = kept
			if got := w.who(); !strings.Contains(got, "log in again") {
				t.Errorf("after logging out the cookie is %q", got)
			}
		})
	}
}

// A cookie that somebody planted before the login is not the one of the login (session fixation).
func TestAPlantedCookieIsWorthNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	text, _ := b.create(t, tokens.New{Name: "ann"})
	w := newBrowser(t, b, "http://localhost:8081")
	planted := strings.Repeat("A", 43)
	w.cookies["oncegate"] = &http.Cookie{Name: "oncegate", Value: planted}
	w.is(w.login(text), "the token", 303, "/console")
	if w.cookies["oncegate"].Value == planted {
		t.Fatal("the login took the planted cookie")
	}
	eve := newBrowser(t, b, "http://localhost:8081")
	eve.cookies["oncegate"] = &http.Cookie{Name: "oncegate", Value: planted}
	if got := eve.who(); strings.Contains(got, "token:ann") {
		t.Errorf("whoever planted it is %q", got)
	}
	// Over https a cookie without the prefix counts for nothing: anybody of the domain may have set it.
	b = newBench(t, func(c *access.Config) { c.URL = "https://oncegate.example" })
	text, _ = b.create(t, tokens.New{Name: "ann"})
	w = newBrowser(t, b, "https://oncegate.example")
	w.is(w.login(text), "the token", 303, "/console")
	eve = newBrowser(t, b, "https://oncegate.example")
	eve.cookies["oncegate"] = &http.Cookie{Name: "oncegate", Value: w.cookies["__Host-oncegate"].Value}
	if got := eve.who(); strings.Contains(got, "token:ann") {
		t.Errorf("a cookie without the prefix is %q", got)
	}
}

// Without encryption the cookie of a login could be read on the way, so nobody can log in.
func TestNobodyLogsInWithoutEncryption(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	text, _ := b.create(t, tokens.New{Name: "ann"})
	w := newBrowser(t, b, "http://oncegate.example:8081")
	w.is(w.do(http.MethodGet, "/login", nil), "the page", 200, "console.url")
	w.is(w.login(text), "the token", 403, "console.url")
	if len(w.cookies) != 0 {
		t.Errorf("the browser has %v", w.cookies)
	}
	// A proxy in front that ends TLS says so.
	w.scheme = "https"
	w.is(w.do(http.MethodPost, "/login", url.Values{"token": {text}}, "X-Forwarded-Proto", "https"), "behind a proxy", 303, "/console")
}

// Another site makes a browser do nothing: neither with its login nor to begin one.
func TestOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	text, _ := b.create(t, tokens.New{Name: "ann"})
	w := newBrowser(t, b, "http://localhost:8081")
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "", "Origin", "http://localhost:3000"}, {"Sec-Fetch-Site", "", "Origin", "null"},
	} {
		if p := w.do(http.MethodPost, "/login", url.Values{"token": {text}}, header...); p.status != 403 || len(w.cookies) != 0 {
			t.Errorf("%v: a login gets %d", header, p.status)
		}
	}
	w.is(w.login(text), "the token", 303, "/console")
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "", "Origin", "https://evil.example"}} {
		if p := w.do(http.MethodPost, "/console", url.Values{}, header...); p.status != 403 {
			t.Errorf("%v: a request gets %d", header, p.status)
		}
		if p := w.do(http.MethodPost, "/logout", url.Values{}, header...); p.status != 403 {
			t.Errorf("%v: logging out gets %d", header, p.status)
		}
	}
	w.is(w.do(http.MethodPost, "/console", url.Values{}), "a request of ours", 200, "token:ann")
	// With a token no browser is involved, and a cookie beside it counts for nothing.
	w.is(w.do(http.MethodPost, "/console", url.Values{}, "Authorization", "Bearer "+text, "Sec-Fetch-Site", "", "Origin", ""), "a program", 200, "token:ann")
	w.is(w.do(http.MethodGet, "/console", nil, "Authorization", "Bearer wrong"), "a wrong token beside the cookie", 401, "not a token")
}

// After a login a browser goes to a path of this server and nowhere else.
func TestALoginLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	text, _ := b.create(t, tokens.New{Name: "ann"})
	w := newBrowser(t, b, "http://localhost:8081")
	for _, elsewhere := range []string{
		"https://evil.example/", "//evil.example/", `/\evil.example/`, `\\evil.example`, "javascript:alert(1)", "evil.example", "/\t/evil.example",
		"/a\r\nSet-Cookie: x=1", "", "http:evil", "/login", "/logout", "/" + strings.Repeat("a", 3000),
	} {
		if p := w.do(http.MethodPost, "/login", url.Values{"token": {text}, "return": {elsewhere}}); p.status != 303 || p.location != "/console" {
			t.Errorf("%q leads to %q, %d", elsewhere, p.location, p.status)
		}
	}
	if got := access.LoginAddress(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/console/events?a=b&c", nil)); got != "/login?return=%2Fconsole%2Fevents%3Fa%3Db%26c" {
		t.Errorf("the address to log in at is %s", got)
	}
}

// Attempts to log in are limited for each peer, whatever way they try.
func TestLoginAttemptsAreLimited(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	w := newBrowser(t, b, "http://localhost:8081")
	for i, guess := range genuineForm(10) {
		w.is(w.login(guess), fmt.Sprintf("guess %d", i), 401, "no token is this one")
	}
	for i := range 10 {
		w.is(w.do(http.MethodPost, "/login/link", url.Values{"code": {fmt.Sprintf("%042dA", i)}}), fmt.Sprintf("link %d", i), 401, "used already, or has expired")
	}
	w.is(w.login(genuineForm(1)[0]), "one guess too many", 429, "try again")
	w.is(w.do(http.MethodPost, "/login/link", url.Values{"code": {strings.Repeat("A", 43)}}), "one link too many", 429, "try again")
	w.is(w.do(http.MethodPost, "/login/link", url.Values{"code": {"short"}}), "what is no link", 401, "used already, or has expired")
	text, _ := b.create(t, tokens.New{Name: "ann"})
	b.at = b.at.Add(time.Second)
	w.is(w.login(text), "the token, a second later", 303, "/console")
}

// A link is used up by the button of its page, not by whoever looks at it first, and works once.
func TestLoginWithALink(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	code, _, err := b.logins.NewLink(t.Context(), logins.NewLink{Grant: logins.Grant{Actor: "link:ann", Scopes: []string{"admin"}}, By: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	address := access.LinkAddress("http://localhost:8081/", code)
	at, err := url.Parse(address)
	if err != nil || at.Host != "localhost:8081" {
		t.Fatalf("%s %v", address, err)
	}
	w := newBrowser(t, b, "http://localhost:8081")
	for range 3 {
		p := w.do(http.MethodGet, at.RequestURI(), nil)
		w.is(p, "the link", 200, `name="code" value="`+code+`"`)
		if p.header.Get("Cache-Control") != "no-store" || !strings.Contains(p.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("the page has the headers %v", p.header)
		}
	}
	w.is(w.do(http.MethodPost, "/login/link", url.Values{"code": {code}}, "Sec-Fetch-Site", "cross-site"), "another site", 403, "")
	w.is(w.do(http.MethodPost, "/login/link", url.Values{"code": {code}}), "the button", 303, "/console")
	if got := w.who(); got != "link:ann admin " {
		t.Errorf("the browser is %q", got)
	}
	w.is(newBrowser(t, b, "http://localhost:8081").do(http.MethodPost, "/login/link", url.Values{"code": {code}}), "again", 401, "used already")
	w.is(w.do(http.MethodGet, "/login?link=%22%3E%3Cscript%3E", nil), "an attack", 200, `name="token"`)
}

// A login works for as long as somebody uses it, and its use is written once a minute.
func TestALoginThatIsUsedGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	text, _ := b.create(t, tokens.New{Name: "ann"})
	w := newBrowser(t, b, "http://localhost:8081")
	w.login(text)
	for range 3 * 60 { // beyond the two hours for which an unused login lasts
		b.at = b.at.Add(time.Minute)
		if got := w.who(); !strings.Contains(got, "token:ann") {
			t.Fatalf("after %s the browser is %q", b.at, got)
		}
	}
	b.at = b.at.Add(logins.DefaultIdle)
	if got := w.who(); !strings.Contains(got, "log in again") {
		t.Errorf("an idle login is %q", got)
	}
	w.login(text)
	b.uses.Store(0)
	for range 10 { // five minutes
		b.at = b.at.Add(30 * time.Second)
		for range 20 {
			w.who()
			if _, err := b.bearer(t, text, "192.0.2.1"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := b.uses.Load(); n != 10 {
		t.Errorf("the uses of a login and a token in five minutes took %d statements, want 5 each", n)
	}
}

// The configuration knows the same scopes as the operations.
func TestTheConfigurationKnowsTheScopes(t *testing.T) {
	t.Parallel()
	if got, want := strings.Join(config.AccessScopes(), ", "), control.Scopes(control.KnownScopes()).String(); got != want {
		t.Errorf("the configuration knows %s, the operations ask for %s", got, want)
	}
}

// A fault of ours is not a refusal.
func TestWithoutADatabaseNobodyIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	text, _ := b.create(t, tokens.New{Name: "ann"})
	b.pool.Close()
	if _, err := b.bearer(t, text, "192.0.2.1"); code(err) != control.CodeUnavailable {
		t.Errorf("%v", err)
	}
}
