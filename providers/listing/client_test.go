package listing_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
	"github.com/oncegate/oncegate/providers/listing"
	"github.com/oncegate/oncegate/providers/listing/listingtest"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// sender is a client of one sender's API.
type sender struct {
	listingtest.Sender

	api    *listingtest.API
	client *listing.Client
	slept  []time.Duration
}

// perSender runs a test for every sender whose list the catalogue describes.
func perSender(t *testing.T, change func(*listing.Config, listingtest.Sender), test func(t *testing.T, s *sender)) {
	t.Helper()
	known := catalogtest.Load(t)
	var tested []string
	for _, of := range listingtest.Senders() {
		tested = append(tested, of.Provider)
		t.Run(of.Provider, func(t *testing.T) {
			t.Parallel()
			s := &sender{Sender: of, api: &listingtest.API{}}
			server := httptest.NewServer(of.Handler(s.api))
			t.Cleanup(server.Close)
			settings := map[string][]string{}
			for name, value := range of.Settings {
				settings[name] = []string{value}
			}
			list, err := known[of.Provider].Listing(providers.Reconciling{Base: server.URL, Params: of.Params, Settings: settings})
			if err != nil {
				t.Fatal(err)
			}
			cfg := listing.Config{
				Listing: list, Credential: []byte(of.Credential), CredentialName: "env:API_KEY", Now: func() time.Time { return noon },
				Sleep: func(_ context.Context, d time.Duration) error {
					if d > 0 {
						s.slept = append(s.slept, d)
					}
					return nil
				},
			}
			if change != nil {
				change(&cfg, of)
			}
			if s.client, err = listing.New(cfg); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.client.Close)
			test(t, s)
		})
	}
	for name, p := range known {
		if p.Spec().Reconcile.Present() && !slices.Contains(tested, name) {
			t.Errorf("%s has a reconcile section and no server in listingtest", name)
		}
	}
}

// all reads the list from the beginning to its end.
func (s *sender) all(t *testing.T) (out []providers.Listed, err error) {
	t.Helper()
	cursor := ""
	for range 20 {
		page, err := s.client.Page(t.Context(), noon.Add(-time.Hour), noon, cursor)
		if err != nil {
			return out, err
		}
		out = append(out, page.Events...)
		if cursor = page.Next; cursor == "" {
			return out, nil
		}
	}
	t.Fatal("the list does not end")
	return nil, nil
}

func failure(t *testing.T, err error) *listing.Error {
	t.Helper()
	failed, ok := errors.AsType[*listing.Error](err)
	if !ok {
		t.Fatalf("error %v", err)
	}
	if strings.Contains(err.Error(), listingtest.Key) || strings.Contains(err.Error(), listingtest.OtherKey) {
		t.Errorf("the error contains the credential: %v", err)
	}
	return failed
}

func TestReadsToTheLastPage(t *testing.T) {
	t.Parallel()
	perSender(t, nil, func(t *testing.T, s *sender) {
		t.Helper()
		want := map[string]time.Time{}
		for i := range 7 {
			e := listingtest.Event{ID: fmt.Sprintf("ev_%d", i), Created: noon.Add(time.Duration(i-8) * time.Minute)}
			s.api.Add(e)
			want[e.ID] = e.Created
		}
		found, err := s.all(t)
		if err != nil || len(found) != len(want) {
			t.Fatalf("%d events, %v, want %d", len(found), err, len(want))
		}
		for i := range found {
			e := &found[i]
			if e.Unusable != "" || !e.Created.Equal(want[e.ID]) {
				t.Errorf("%s of %v: %s", e.ID, e.Created, e.Unusable)
			}
			if e.Delivery == "" && (len(e.Items) != 1 || e.Items[0].EventID != e.ID || e.Items[0].Type == "" || e.Items[0].Unknown) {
				t.Errorf("%s: %+v of %s", e.ID, e.Items, e.Body)
			}
			delete(want, e.ID)
		}
		if n := s.api.Requests(); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
	})
}

func TestAnEmptyList(t *testing.T) {
	t.Parallel()
	perSender(t, nil, func(t *testing.T, s *sender) {
		t.Helper()
		if found, err := s.all(t); err != nil || len(found) != 0 {
			t.Errorf("%v, %v", found, err)
		}
	})
}

func TestWaitsWhenTheSenderAsksForIt(t *testing.T) {
	t.Parallel()
	perSender(t, nil, func(t *testing.T, s *sender) {
		t.Helper()
		s.api.Before = func(w http.ResponseWriter, _ *http.Request, n int) bool {
			if n == 1 {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(http.StatusTooManyRequests)
			}
			return n == 1
		}
		s.api.Add(listingtest.Event{ID: "ev_1", Created: noon.Add(-time.Minute)})
		if found, err := s.all(t); err != nil || len(found) != 1 {
			t.Errorf("%v, %v", found, err)
		}
		if !slices.Contains(s.slept, 7*time.Second) {
			t.Errorf("it slept %v, want 7 s among them", s.slept)
		}
	})
}

func TestSaysWhichCredentialIsRefused(t *testing.T) {
	t.Parallel()
	perSender(t, func(cfg *listing.Config, of listingtest.Sender) { cfg.Credential = []byte(of.Other) }, func(t *testing.T, s *sender) {
		t.Helper()
		_, err := s.all(t)
		if failed := failure(t, err); failed.Later || failed.Status != http.StatusUnauthorized || !strings.Contains(failed.Error(), "env:API_KEY") {
			t.Errorf("%+v", failed)
		}
		if n := s.api.Requests() + s.api.Tokens(); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

func TestGivesUpAfterThreeFaults(t *testing.T) {
	t.Parallel()
	perSender(t, nil, func(t *testing.T, s *sender) {
		t.Helper()
		s.api.Before = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}
		_, err := s.all(t)
		if failed := failure(t, err); !failed.Later {
			t.Errorf("%+v", failed)
		}
		if n := s.api.Requests(); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
	})
}

func TestFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	perSender(t, nil, func(t *testing.T, s *sender) {
		t.Helper()
		elsewhere := 0
		other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
		t.Cleanup(other.Close)
		s.api.Before = func(w http.ResponseWriter, r *http.Request, _ int) bool {
			http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		}
		_, err := s.all(t)
		if failed := failure(t, err); failed.Later || failed.Status != http.StatusTemporaryRedirect || elsewhere != 0 {
			t.Errorf("%+v, and %d requests elsewhere", failed, elsewhere)
		}
	})
}

func TestRefusesAHugeAnswer(t *testing.T) {
	t.Parallel()
	perSender(t, func(cfg *listing.Config, _ listingtest.Sender) { cfg.MaxAnswer = 1 << 20 }, func(t *testing.T, s *sender) {
		t.Helper()
		s.api.Before = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			_, _ = w.Write([]byte(`{"data":"` + strings.Repeat("x", 1<<20) + `"}`))
			return true
		}
		_, err := s.all(t)
		if failed := failure(t, err); failed.Later || !strings.Contains(failed.Error(), "more than 1 MiB") {
			t.Errorf("%+v", failed)
		}
	})
}

// An answer that has the next page on another host cannot send the credential there.
func TestTheNextPageIsOnTheHostOfTheList(t *testing.T) {
	t.Parallel()
	perSender(t, nil, func(t *testing.T, s *sender) {
		t.Helper()
		if catalogtest.Load(t)[s.Provider].Spec().Reconcile.Page.Param != "" {
			return
		}
		_, err := s.client.Page(t.Context(), noon.Add(-time.Hour), noon, "http://192.0.2.1/events")
		if !errors.Is(err, providers.ErrElsewhere) || s.api.Requests() != 0 {
			t.Errorf("error %v after %d requests", err, s.api.Requests())
		}
	})
}

func TestAsksForOneMoreDelivery(t *testing.T) {
	t.Parallel()
	perSender(t, nil, func(t *testing.T, s *sender) {
		t.Helper()
		if s.Provider != "github" {
			return
		}
		s.api.Add(listingtest.Event{ID: "guid_1", Created: noon.Add(-time.Minute)}, listingtest.Event{ID: "guid_2", Created: noon})
		found, err := s.all(t)
		if err != nil || len(found) != 2 {
			t.Fatal(found, err)
		}
		if err := s.client.Redeliver(t.Context(), found[1].Delivery); err != nil {
			t.Fatal(err)
		}
		if got := s.api.Redelivered(); !slices.Equal(got, []string{"guid_1"}) {
			t.Errorf("asked for %q", got)
		}
	})
}

// An issued token is used until shortly before it expires.
func TestATokenIsUsedUntilItExpires(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		life   time.Duration
		tokens int
	}{{time.Hour, 1}, {5 * time.Second, 3}} {
		perSender(t, nil, func(t *testing.T, s *sender) {
			t.Helper()
			if s.Provider != "paypal" {
				return
			}
			s.api.TokenLife = test.life
			for i := range 7 {
				s.api.Add(listingtest.Event{ID: fmt.Sprintf("ev_%d", i), Created: noon.Add(-time.Minute)})
			}
			if found, err := s.all(t); err != nil || len(found) != 7 || s.api.Tokens() != test.tokens {
				t.Errorf("%d events, %v, with %d tokens, want %d", len(found), err, s.api.Tokens(), test.tokens)
			}
		})
	}
}

// A signed event of another app is not usable, although the same root signed it.
func TestASignedEventOfAnotherAppIsUnusable(t *testing.T) {
	t.Parallel()
	for _, s := range listingtest.Senders() {
		if s.Provider != "apple-app-store" {
			continue
		}
		api := &listingtest.API{}
		api.Add(listingtest.Event{ID: "ev_1", Created: noon.Add(-time.Minute)})
		server := httptest.NewServer(s.Handler(api))
		t.Cleanup(server.Close)
		settings := map[string][]string{"bundle_id": {"com.example.other"}, "roots": {s.Settings["roots"]}}
		list, err := catalogtest.Load(t)[s.Provider].Listing(providers.Reconciling{Base: server.URL, Params: s.Params, Settings: settings})
		if err != nil {
			t.Fatal(err)
		}
		client, err := listing.New(listing.Config{Listing: list, Credential: []byte(s.Credential), CredentialName: "env:API_KEY", Now: func() time.Time { return noon }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		page, err := client.Page(t.Context(), noon.Add(-time.Hour), noon, "")
		if err != nil || len(page.Events) != 1 || !strings.Contains(page.Events[0].Unusable, "bundle_id") {
			t.Errorf("%+v, %v", page, err)
		}
	}
}

// A credential in the wrong form is refused before a request is sent.
func TestAKeyInTheWrongFormIsNamed(t *testing.T) {
	t.Parallel()
	list, err := catalogtest.Load(t)["apple-app-store"].Listing(providers.Reconciling{
		Params: map[string]string{"issuer_id": "i", "key_id": "k", "bundle_id": "b"}, Settings: map[string][]string{"bundle_id": {"b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = listing.New(listing.Config{Listing: list, Credential: []byte(listingtest.Key), CredentialName: "env:API_KEY"})
	if failed := failure(t, err); !strings.Contains(failed.Error(), "env:API_KEY is not a private key of the curve P-256") {
		t.Errorf("%v", failed)
	}
	if list, err = catalogtest.Load(t)["paypal"].Listing(providers.Reconciling{}); err != nil {
		t.Fatal(err)
	}
	_, err = listing.New(listing.Config{Listing: list, Credential: []byte(listingtest.Key), CredentialName: "env:API_KEY"})
	if failed := failure(t, err); !strings.Contains(failed.Error(), "env:API_KEY is not client_id:client_secret") {
		t.Errorf("%v", failed)
	}
}
