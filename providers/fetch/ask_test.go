package fetch_test

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers/fetch"
	"github.com/oncegate/oncegate/providers/scheme"
)

// provider answers questions, and issues tokens numbered from 1.
type provider struct {
	*store
	tokens, questions atomic.Int64
	valid             atomic.Int64 // the least token that it accepts
	life              atomic.Int64 // in seconds
	token, answer     atomic.Pointer[http.HandlerFunc]
}

const (
	clientID     = "the-client"
	clientSecret = "the-client-secret"
)

func openProvider(t *testing.T) (*provider, fetch.Config) {
	t.Helper()
	s, cfg := open(t)
	cfg.Timeout, cfg.AskTimeout = time.Minute, time.Minute
	p := &provider{store: s}
	p.life.Store(32400)
	p.gives(func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		body, _ := io.ReadAll(r.Body)
		if id != clientID || secret != clientSecret || string(body) != "grant_type=client_credentials" || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"Bearer","expires_in":%d}`, p.tokens.Load(), p.life.Load())
	})
	p.answers(func(w http.ResponseWriter, r *http.Request) {
		var n int64
		if _, err := fmt.Sscanf(r.Header.Get("Authorization"), "Bearer token-%d", &n); err != nil || n < p.valid.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(append([]byte("heard "), body...))
	})
	s.says(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case r.URL.Path == "/token":
			p.tokens.Add(1)
			(*p.token.Load())(w, r)
		default:
			p.questions.Add(1)
			(*p.answer.Load())(w, r)
		}
	})
	return p, cfg
}

func (p *provider) gives(f http.HandlerFunc)   { p.token.Store(&f) }
func (p *provider) answers(f http.HandlerFunc) { p.answer.Store(&f) }

func (p *provider) question() *scheme.Question {
	return &scheme.Question{
		URL: "https://" + p.host + "/ask", Hosts: []string{p.host}, Body: []byte(`{"a": 1.00}`),
		Grant: scheme.Grant{URL: "https://" + p.host + "/token", ID: clientID, Secret: clientSecret},
	}
}

func (p *provider) counts(t *testing.T, tokens, questions int64) {
	t.Helper()
	if p.tokens.Load() != tokens || p.questions.Load() != questions {
		t.Errorf("%d tokens and %d questions, want %d and %d", p.tokens.Load(), p.questions.Load(), tokens, questions)
	}
}

func TestAsks(t *testing.T) {
	t.Parallel()
	p, cfg := openProvider(t)
	f := fetcher(t, cfg)
	ask := func() {
		t.Helper()
		if answer, err := f.Ask(p.question()); err != nil || string(answer) != `heard {"a": 1.00}` {
			t.Fatalf("%q %v", answer, err)
		}
	}
	ask()
	ask()
	p.counts(t, 1, 2) // the token is kept, the answer is not
	p.now.Add(32400 - 61)
	ask()
	p.counts(t, 1, 3)
	p.now.Add(2) // within a minute of its end
	ask()
	p.counts(t, 2, 4)
	p.now.Add(60)
	p.valid.Store(3) // the second token is withdrawn
	ask()
	p.counts(t, 3, 6)
	ask()
	p.counts(t, 3, 7)
}

// A provider that accepts no token is not asked for one by each delivery.
func TestAskRenewsOnce(t *testing.T) {
	t.Parallel()
	p, cfg := openProvider(t)
	f := fetcher(t, cfg)
	p.valid.Store(1000)
	for range 5 {
		if _, err := f.Ask(p.question()); err == nil {
			t.Fatal("answered")
		}
	}
	p.counts(t, 1, 5) // a token of a moment ago is not replaced
	p.now.Add(60)
	for range 5 {
		if _, err := f.Ask(p.question()); err == nil {
			t.Fatal("answered")
		}
	}
	p.counts(t, 2, 11) // the first of them asked twice
	p.valid.Store(0)
	if _, err := f.Ask(p.question()); err != nil {
		t.Error(err)
	}
}

func TestOneToken(t *testing.T) {
	t.Parallel()
	p, cfg := openProvider(t)
	f := fetcher(t, cfg)
	var all sync.WaitGroup
	var failed atomic.Int64
	round := func() {
		for range 20 {
			all.Go(func() {
				if _, err := f.Ask(p.question()); err != nil {
					failed.Add(1)
				}
			})
		}
		all.Wait()
	}
	round()
	p.now.Add(60)
	p.valid.Store(2) // all of them find it withdrawn
	round()
	if failed.Load() > 0 || p.tokens.Load() != 2 {
		t.Errorf("%d failed, %d tokens", failed.Load(), p.tokens.Load())
	}
}

// TestAskFaults checks that every fault is an error that contains no secret.
func TestAskFaults(t *testing.T) {
	t.Parallel()
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "https://"+r.Host+"/ask")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the end of the connection is not noticed
		<-r.Context().Done()
	}
	for name, c := range map[string]struct{ token, answer http.HandlerFunc }{
		"token 401":      {token: status(401, clientSecret)},
		"token 500":      {token: status(500, "")},
		"token redirect": {token: status(307, "")},
		"token rubbish":  {token: status(200, "<html>"+clientSecret)},
		"no token":       {token: status(200, `{"token_type":"Bearer","expires_in":9}`)},
		"no end":         {token: status(200, `{"access_token":"a","token_type":"Bearer"}`)},
		"another type":   {token: status(200, `{"access_token":"a","token_type":"mac","expires_in":9}`)},
		"two headers":    {token: status(200, `{"access_token":"a\r\nX: y","token_type":"Bearer","expires_in":9}`)},
		"token hangs":    {token: hang},
		"token endless":  {token: status(200, strings.Repeat(" ", 1<<17))},
		"400":            {answer: status(400, clientSecret)},
		"403":            {answer: status(403, "")},
		"404":            {answer: status(404, "")},
		"429":            {answer: status(429, "")},
		"500":            {answer: status(500, "")},
		"redirect":       {answer: status(307, "")},
		"201":            {answer: status(201, "heard")},
		"hangs":          {answer: hang},
		"endless":        {answer: status(200, strings.Repeat("x", 1<<17))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, cfg := openProvider(t)
			if strings.Contains(name, "hangs") {
				cfg.AskTimeout = 300 * time.Millisecond
			}
			if c.token != nil {
				p.gives(c.token)
			}
			if c.answer != nil {
				p.answers(c.answer)
			}
			f := fetcher(t, cfg)
			answer, err := f.Ask(p.question())
			if err == nil || answer != nil {
				t.Fatalf("%q %v", answer, err)
			}
			for _, secret := range []string{clientID, clientSecret, "token-1", "Basic", "Bearer", "1.00"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%s is in %v", secret, err)
				}
			}
			if c.token == nil {
				return
			}
			if _, again := f.Ask(p.question()); again == nil {
				t.Error("answered")
			}
			p.counts(t, 1, 0) // a failed attempt is not made again at once
		})
	}
}

func TestAskRefuses(t *testing.T) {
	t.Parallel()
	p, cfg := openProvider(t)
	f := fetcher(t, cfg)
	for name, change := range map[string]func(q *scheme.Question){
		"http":           func(q *scheme.Question) { q.URL = "http://" + p.host + "/ask" },
		"another host":   func(q *scheme.Question) { q.URL = "https://evil.example/ask" },
		"http token":     func(q *scheme.Question) { q.Grant.URL = "http://" + p.host + "/token" },
		"foreign token":  func(q *scheme.Question) { q.Grant.URL = "https://evil.example/token" },
		"no host":        func(q *scheme.Question) { q.Hosts = nil },
		"a user":         func(q *scheme.Question) { q.URL = "https://a@" + p.host + "/ask" },
		"a host's child": func(q *scheme.Question) { q.URL = "https://a." + p.host + "/ask" },
	} {
		q := p.question()
		change(q)
		if _, err := f.Ask(q); err == nil {
			t.Errorf("%s is asked", name)
		}
	}
	cfg.Allow = []netip.Prefix{} // 127.0.0.1 is not a provider's address
	if _, err := fetcher(t, cfg).Ask(p.question()); err == nil {
		t.Error("a private address is asked")
	}
	p.counts(t, 0, 0)
}

// Questions that hang do not pile up.
func TestAskCrowd(t *testing.T) {
	t.Parallel()
	p, cfg := openProvider(t)
	release := make(chan struct{})
	p.answers(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		_, _ = io.WriteString(w, "heard")
	})
	f := fetcher(t, cfg)
	const all, room = 40, 32
	results := make(chan error, all)
	for range all {
		go func() {
			_, err := f.Ask(p.question())
			results <- err
		}()
	}
	for range all - room { // only those that there is no room for come back
		if err := <-results; err == nil || !strings.Contains(err.Error(), "too many") {
			t.Errorf("%v", err)
		}
	}
	close(release)
	for range room {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

func TestGrantIsNotPrinted(t *testing.T) {
	t.Parallel()
	q := scheme.Question{Grant: scheme.Grant{URL: "https://a.example/", ID: clientID, Secret: clientSecret}}
	for _, text := range []string{fmt.Sprint(q), fmt.Sprintf("%+v", &q), fmt.Sprintf("%#v", q), q.Grant.String()} {
		if strings.Contains(text, clientID) || strings.Contains(text, clientSecret) {
			t.Error(text)
		}
	}
}
