package providers_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/fetch"
	"github.com/oncegate/oncegate/providers/scheme"
)

// shelf is a store in memory.
type shelf struct {
	mu     sync.Mutex
	copies map[[32]byte]fetch.Copy
}

func (s *shelf) Load(context.Context) ([]fetch.Copy, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []fetch.Copy
	for _, c := range s.copies {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b fetch.Copy) int { return b.ProvedAt.Compare(a.ProvedAt) })
	return out, nil
}

func (s *shelf) Save(_ context.Context, c fetch.Copy) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Text == nil {
		delete(s.copies, c.Digest)
	} else {
		s.copies[c.Digest] = c
	}
	return nil
}

func (s *shelf) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.copies)
}

func within(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !condition(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what + " did not come about")
		}
	}
}

func deferred(err error) bool {
	_, ok := errors.AsType[*providers.Deferral](err)
	return ok
}

func refused(err error) bool {
	_, ok := errors.AsType[*providers.Refusal](err)
	return ok
}

// After a restart in the middle of a flood, a key that has verified something is in hand,
// and so it is where the key store cannot be reached at all.
func TestRestartNeedsNoKeyStore(t *testing.T) {
	t.Parallel()
	for name, open := range signers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &shelf{copies: map[[32]byte]fetch.Copy{}}
			p := publish(t, func(cfg *fetch.Config) { cfg.Store = store })
			s := open(t, p)
			s.rotate()
			provider := s.bind(t, p)
			first := s.genuine("evt-1", noon)
			if _, err := provider.Verify(&first, s.secrets); err != nil {
				t.Fatal(err)
			}
			forged := s.forged(1, noon)
			if _, err := provider.Verify(&forged, s.secrets); err == nil {
				t.Fatal("a forgery verifies")
			}
			within(t, "a copy in the store", func() bool { return store.count() > 0 })
			if n := store.count(); n != 1 {
				t.Errorf("%d copies are stored: only what has verified something belongs there", n)
			}
			_ = p.Stop(t.Context())

			down := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
			p.fault.Store(&down)
			at := noon.Add(7 * 24 * time.Hour / 100) // less than a day, more than an hour
			p.now.Store(at.UnixMilli())
			p.restart(t)
			for n := range 100 {
				r := s.forged(1000+n, at)
				if _, err := provider.Verify(&r, s.secrets); err == nil {
					t.Fatal("a forgery verifies")
				}
			}
			again := s.genuine("evt-2", at)
			if _, err := provider.Verify(&again, s.secrets); err != nil {
				t.Errorf("after the restart: %v", err)
			}
		})
	}
}

// TestSlowKeyStore checks that a slow key store does not delay requests whose key is cached, and
// that only few forgeries wait for it, whatever keys they name.
func TestSlowKeyStore(t *testing.T) {
	t.Parallel()
	for name, open := range signers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := publish(t, func(cfg *fetch.Config) { cfg.Timeout = 10 * time.Minute })
			s := open(t, p)
			s.rotate()
			provider := s.bind(t, p)
			first := s.genuine("evt-1", noon)
			if _, err := provider.Verify(&first, s.secrets); err != nil {
				t.Fatal(err)
			}
			release := make(chan struct{})
			hang := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				<-release
				w.WriteHeader(http.StatusBadGateway)
			})
			p.fault.Store(&hang)
			at := noon.Add(2 * time.Hour) // the copy is old as well
			p.now.Store(at.UnixMilli())
			const all, most = 300, 4 * (1 + 8) // attempts, and who waits for each of them
			ended := make(chan error, all)
			for n := range all {
				go func() {
					r := s.forged(n%6, at)
					_, err := provider.Verify(&r, s.secrets)
					ended <- err
				}()
			}
			waiting := most
			if name == "generic-jwt" {
				waiting = 1 + 64 // the set of keys is one document, which the configuration names
			}
			for range all - waiting {
				select {
				case err := <-ended:
					if !deferred(err) {
						t.Errorf("%v, want that it is to come again", err)
					}
				case <-time.After(time.Minute):
					close(release)
					t.Fatal("more forgeries wait for the key store than may")
				}
			}
			verified := make(chan error, 1)
			go func() {
				genuine := s.genuine("evt-2", at)
				_, err := provider.Verify(&genuine, s.secrets)
				verified <- err
			}()
			select {
			case err := <-verified:
				if err != nil {
					t.Errorf("beside a key store that hangs: %v", err)
				}
			case <-time.After(time.Minute):
				t.Error("a delivery whose key is in hand waits for the key store")
			}
			close(release)
			for range waiting {
				if err := <-ended; err == nil {
					t.Error("a forgery verifies")
				}
			}
		})
	}
}

// TestKeyStoreAnswersRubbish checks that for any answer of a key store, valid requests continue to
// verify, others are deferred or refused, and only a key is accepted as a key.
func TestKeyStoreAnswersRubbish(t *testing.T) {
	t.Parallel()
	answers := map[string]http.HandlerFunc{
		"5 MB":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 5<<20)) },
		"garbage": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>\x00\xff")) },
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://evil.example/key.pem", http.StatusFound)
		},
		"fault":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"forbidden": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"other PEM": func(w http.ResponseWriter, _ *http.Request) {
			_ = pem.Encode(w, &pem.Block{Type: "EC PARAMETERS", Bytes: []byte{1}})
		},
		"broken PEM": func(w http.ResponseWriter, _ *http.Request) {
			_ = pem.Encode(w, &pem.Block{Type: "CERTIFICATE", Bytes: []byte{1}})
		},
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("-----BEGIN"))
		},
	}
	for name, open := range signers {
		for what, answer := range answers {
			t.Run(name+"/"+what, func(t *testing.T) {
				t.Parallel()
				p := publish(t)
				s := open(t, p)
				s.rotate()
				provider := s.bind(t, p)
				first := s.genuine("evt-1", noon)
				if _, err := provider.Verify(&first, s.secrets); err != nil {
					t.Fatal(err)
				}
				p.fault.Store(&answer)
				forged := s.forged(1, noon.Add(2*time.Minute))
				p.now.Store(noon.Add(2 * time.Minute).UnixMilli())
				if _, err := provider.Verify(&forged, s.secrets); !deferred(err) {
					t.Errorf("a key that cannot be got: %v", err)
				}
				for _, age := range []time.Duration{2 * time.Hour, 30 * time.Hour} {
					at := noon.Add(age)
					p.now.Store(at.UnixMilli())
					for i := range 2 {
						r := s.genuine(fmt.Sprint("evt-", age, i), at)
						if _, err := provider.Verify(&r, s.secrets); err != nil {
							t.Errorf("a key that is known, after %s: %v", age, err)
						}
					}
				}
			})
		}
	}
}

// A certificate that has expired, or that leads to no root, verifies nothing, is asked for
// once, and never counts as one that has verified something.
func TestBadCertificatesAreNeverProven(t *testing.T) {
	t.Parallel()
	for what, issue := range map[string]func(t *testing.T, good, other *authority, s *signer, address string) []byte{
		"expired": func(t *testing.T, good, _ *authority, _ *signer, _ string) []byte {
			t.Helper()
			return good.issue(t, privateKey(t), "sns.amazonaws.com", noon.Add(-time.Minute))
		},
		"another root": func(t *testing.T, _, other *authority, _ *signer, _ string) []byte {
			t.Helper()
			return other.issue(t, privateKey(t), "sns.amazonaws.com", noon.Add(time.Hour))
		},
		"another name": func(t *testing.T, good, _ *authority, _ *signer, _ string) []byte {
			t.Helper()
			return good.issue(t, privateKey(t), "sns.evil.example", noon.Add(time.Hour))
		},
		"another key": func(t *testing.T, good, _ *authority, _ *signer, _ string) []byte {
			t.Helper()
			return good.issue(t, privateKey(t), "sns.amazonaws.com", noon.Add(time.Hour))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			store := &shelf{copies: map[[32]byte]fetch.Copy{}}
			p := publish(t, func(cfg *fetch.Config) { cfg.Store = store })
			s := snsSigner(t, p)
			good := newAuthority(t)
			s.settings["roots"] = append(s.settings["roots"], string(good.pem))
			provider := s.bind(t, p)
			p.says("https://sns.eu-west-1.amazonaws.com/"+fmt.Sprintf("SimpleNotificationService-%032x.pem", 1), issue(t, good, newAuthority(t), s, ""))
			for range 5 {
				r := s.forged(1, noon)
				if _, err := provider.Verify(&r, s.secrets); !refused(err) {
					t.Errorf("%v", err)
				}
			}
			if n := p.asked.Load(); n != 1 {
				t.Errorf("asked %d times", n)
			}
			if stats := p.Stats(); stats.Proven != 0 || stats.Others != 1 {
				t.Errorf("%+v", stats)
			}
		})
	}
}

// A sender takes back a certificate: one answer that it does not exist may be a mistake,
// two a minute apart are not. Then it verifies nothing, and the store forgets it.
func TestKeyTakenBack(t *testing.T) {
	t.Parallel()
	store := &shelf{copies: map[[32]byte]fetch.Copy{}}
	p := publish(t, func(cfg *fetch.Config) { cfg.Store = store })
	s := snsSigner(t, p)
	s.rotate()
	provider := s.bind(t, p)
	at := noon
	verify := func() error {
		p.now.Store(at.UnixMilli())
		r := s.genuine("evt", at)
		_, err := provider.Verify(&r, s.secrets)
		return err
	}
	if err := verify(); err != nil {
		t.Fatal(err)
	}
	within(t, "a copy in the store", func() bool { return store.count() == 1 })
	p.docs.Store(&map[string][]byte{})
	for i := range uint64(2) {
		at = at.Add(2 * time.Hour)
		if err := verify(); err != nil { // the renewal runs in the background
			t.Fatal(err)
		}
		within(t, "an answer", func() bool { return p.Stats().Trusted.Missing == i+1 })
	}
	at = at.Add(time.Second)
	if err := verify(); !refused(err) {
		t.Errorf("%v, want a refusal", err)
	}
	within(t, "an empty store", func() bool { return store.count() == 0 })
}

// TestKeyMemoryIsBounded checks that the memory of a fetcher is limited, and that no forgery evicts
// a proven document.
func TestKeyMemoryIsBounded(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("makes 2,000 connections, one after the other")
	}
	p := publish(t, func(cfg *fetch.Config) { cfg.Rate = 1 << 20 })
	want := func(n int) scheme.KeyRequest {
		return p.here(scheme.KeyRequest{
			URL: fmt.Sprintf("https://keys.example/%d", n), Hosts: []string{"keys.example"}, Claimed: true, ReceivedAt: noon,
		})
	}
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("key " + r.URL.Path)) })
	p.fault.Store(&answer)
	const proven = 600
	for n := range proven { // more than are kept
		w := want(n)
		p.now.Add(1)
		if _, err := p.Fetcher.Fetch(w); err != nil {
			t.Fatal(err)
		}
		p.Fetcher.Confirm(w)
	}
	for n := range 1000 {
		p.now.Add(1)
		if _, err := p.Fetcher.Fetch(want(proven + n)); err != nil {
			t.Fatal(err)
		}
	}
	stats := p.Stats()
	if stats.Proven != 512 || stats.Others != 256 {
		t.Errorf("%d documents that have verified something and %d others, want 512 and 256", stats.Proven, stats.Others)
	}
	before := p.asked.Load()
	for n := proven - 512; n < proven; n++ {
		if text, err := p.Fetcher.Fetch(want(n)); err != nil || !strings.HasPrefix(string(text), "key ") {
			t.Fatalf("%q %v", text, err)
		}
	}
	if n := p.asked.Load() - before; n != 0 {
		t.Errorf("%d of what has verified something was asked for again", n)
	}
}

// TestRunOverRefusalsHasItsOwnBudget checks that a run over stored refusals requests every key that
// they name, so that invented keys do not prevent a genuine one from being found. It does not share
// a server's budget.
func TestRunOverRefusalsHasItsOwnBudget(t *testing.T) {
	t.Parallel()
	p := publish(t)
	s := snsSigner(t, p)
	s.rotate()
	server := s.bind(t, p)
	for n := range 1000 {
		r := s.forged(n, noon)
		_, _ = server.Verify(&r, nil)
	}
	genuine := s.genuine("evt-1", noon)
	if _, err := server.Verify(&genuine, nil); !deferred(err) {
		t.Fatalf("%v: the budget is not used up", err)
	}
	p.cfg.Rate = 1 << 20
	p.restart(t)
	for n := range 500 {
		r := s.forged(n, noon)
		if _, err := server.Verify(&r, nil); !refused(err) {
			t.Fatalf("forgery %d: %v", n, err)
		}
	}
	if _, err := server.Verify(&genuine, s.secrets); err != nil {
		t.Error(err)
	}
}
