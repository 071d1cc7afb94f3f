package console_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/access/tokens"
)

// follower reads a live list.
type follower struct{ lines chan string }

// follow opens the live list of events as a browser or a program does, and waits until it is open.
func (w *world) follow(t *testing.T, client *http.Client, token string) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.private.URL+"/live?list=events", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		t.Fatalf("the live list is answered %d", response.StatusCode)
	}
	f := &follower{lines: make(chan string, 1000)}
	go func() {
		defer close(f.lines)
		for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
			f.lines <- scanner.Text()
		}
	}()
	f.waits(t, "retry:")
	return f
}

// waits waits for a line with the text. It fails if the list ends before.
func (f *follower) waits(t *testing.T, text string) {
	t.Helper()
	timeout := time.After(limit)
	for {
		select {
		case line, open := <-f.lines:
			if strings.Contains(line, text) {
				return
			}
			if !open {
				t.Fatalf("the live list ended before it said %q", text)
			}
		case <-timeout:
			t.Fatalf("the live list does not say %q", text)
		}
	}
}

// ended wants the list to say that it ends, and to end.
func (f *follower) ended(t *testing.T) {
	t.Helper()
	f.waits(t, "event: end")
	timeout := time.After(limit)
	for {
		select {
		case _, open := <-f.lines:
			if !open {
				return
			}
		case <-timeout:
			t.Fatal("the live list said that it ends, and is open")
		}
	}
}

// A live list that is open ends at its next look when whoever opened it has no access any more.
func TestALiveListEndsWithTheAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	create := func(name string) (text string) {
		text, _, err := tokens.NewStore(w.pool, nil).Create(t.Context(), tokens.New{Name: name, Scopes: []string{"read-metadata"}, Actor: "test", ExpiresAt: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	exec := func(sql string) func() {
		return func() {
			if tag, err := w.pool.Exec(t.Context(), sql); err != nil || tag.RowsAffected() != 1 {
				t.Fatalf("%s: %v, %v", sql, tag, err)
			}
		}
	}
	// login is a browser in which somebody logged in with a token.
	login := func(name string) *http.Client {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Jar: jar}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.private.URL+"/login", strings.NewReader(url.Values{"token": {create(name)}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return client
	}
	for i, c := range []struct {
		name   string
		client *http.Client
		token  string
		ends   func()
	}{
		{"a token that is revoked", http.DefaultClient, create("revoked"), exec(`UPDATE access_token SET revoked_at = now() WHERE name = 'revoked'`)},
		{"a token that expires", http.DefaultClient, create("expired"), exec(`UPDATE access_token SET created_at = now() - interval '1 hour', expires_at = now() - interval '1 second' WHERE name = 'expired'`)},
		{"a login that is revoked", login("ann"), "", exec(`UPDATE console_login SET ended_at = now() WHERE actor LIKE 'token:ann/%'`)},
		{"a login that expires", login("bob"), "", exec(`UPDATE console_login SET created_at = now() - interval '1 hour', expires_at = now() - interval '1 second' WHERE actor LIKE 'token:bob/%'`)},
		{"a login whose token is revoked", login("eve"), "", exec(`UPDATE access_token SET revoked_at = now() WHERE name = 'eve'`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := w.follow(t, c.client, c.token)
			deadline := time.Now().Add(limit)
			for n := 0; ; n++ { // the first look only learns what is there
				if time.Now().After(deadline) {
					t.Fatal("the live list does not tell of an event")
				}
				w.deliver(t, event(fmt.Sprintf("evt_live_%d_%d", i, n), "invoice.paid", ""), http.StatusOK)
				select {
				case line := <-f.lines:
					if strings.Contains(line, "event: new") {
						c.ends()
						f.ended(t)
						return
					}
				case <-time.After(500 * time.Millisecond):
				}
			}
		})
	}
}
