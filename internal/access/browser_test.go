package access_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/control"
)

// browser stores the cookies of one browser and sends what a browser sends. It follows no redirect.
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

// who returns the actor of the browser's login, or the error message.
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
