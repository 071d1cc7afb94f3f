package console_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/console"
	"github.com/oncegate/oncegate/internal/control"
)

// idle answers every operation with nothing.
type idle struct{}

func (idle) Call(context.Context, control.Definition, any, any) error { return nil }

// newIdle serves a console without data. The Authorization header is the credential and the tenant, with a slash between.
func newIdle(t *testing.T) *httptest.Server {
	t.Helper()
	c, err := console.New(console.Config{
		Caller: func(control.Access) control.Caller { return idle{} }, Logger: slog.New(slog.DiscardHandler), Every: time.Hour,
		Authenticate: func(r *http.Request) (control.Access, error) {
			credential, tenant, _ := strings.Cut(r.Header.Get("Authorization"), "/")
			return control.Access{Actor: "token:" + credential, Credential: credential, Tenant: tenant, Scopes: control.Scopes{control.ReadMetadata}}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return server
}

// One token, and one tenant with many tokens, leave live lists to the others, whatever their other headers are.
func TestLiveListsAreShared(t *testing.T) {
	t.Parallel()
	server := newIdle(t)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	open := func(who, cookie string) bool {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/live?list=events", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", who)
		r.Header.Set("Cookie", cookie)
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cancel(); _ = answer.Body.Close() })
		return answer.StatusCode == http.StatusOK
	}
	many := func(who func(n int) string) (opened int) {
		for n := range 40 {
			if open(who(n), "x="+strconv.Itoa(n)) {
				opened++
			}
		}
		return opened
	}
	if n := many(func(int) string { return "one/acme" }); n != 8 {
		t.Errorf("one token has %d live lists, want 8", n)
	}
	if n := many(func(n int) string { return strconv.Itoa(n) + "/acme" }); n != 8 {
		t.Errorf("the tenant has %d live lists more, want 8, which is half of all", n)
	}
	if !open("other/blue", "") || !open("operator/", "") {
		t.Error("nobody else has a live list")
	}
}

// The choice of a theme leads back to a page of this server, and to no other.
func TestTheThemeLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	server := newIdle(t)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for to, want := range map[string]string{
		"/events?source=x": "/events?source=x", "/\t/evil.example": "/", "/\n/evil.example": "/", "//evil.example": "/", "/\\evil.example": "/", "https://evil.example": "/",
		"/\x00/evil.example": "/", "": "/", "\t//evil.example": "/", "/\u2028/evil.example": "/",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/theme", strings.NewReader(url.Values{"theme": {"dark"}, "return": {to}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if got := answer.Header.Get("Location"); got != want {
			t.Errorf("%q leads to %q, want %q", to, got, want)
		}
	}
}
