package oncegatetest_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/delivery"
	"github.com/oncegate/oncegate/oncegatetest"
	"github.com/oncegate/oncegate/providers/catalog"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

// start starts an Inbox whose handler ledger returns what handle returns. Its table booked is in the schema of the test.
func start(tb testing.TB, change func(*oncegate.Config), handle func(e oncegate.Event) error) *oncegatetest.Inbox {
	tb.Helper()
	cfg := oncegate.Config{
		DatabaseURL: inboxtest.URL(tb),
		Sources: []oncegate.Source{{
			Name: "stripe", Secrets: []oncegate.Secret{oncegate.Value("whsec_test")},
			Routes: []oncegate.Route{{Name: "ledger", Types: []string{"invoice.paid"}, Retry: oncegate.Retry{Attempts: 3, Base: 10 * time.Millisecond, Max: 20 * time.Millisecond}}},
		}},
	}
	if change != nil {
		change(&cfg)
	}
	og := oncegatetest.Start(tb, cfg, func(og *oncegate.Inbox) {
		_ = og.Handle("ledger", func(ctx context.Context, tx pgx.Tx, e oncegate.Event) error {
			if _, err := tx.Exec(ctx, `INSERT INTO booked VALUES ($1)`, e.EventID); err != nil {
				return err
			}
			if handle == nil {
				return nil
			}
			return handle(e)
		})
	})
	if _, err := inboxtest.Open(tb, og.DatabaseURL, og.Schema, "admin", 1).Exec(tb.Context(), `CREATE TABLE booked (event text)`); err != nil {
		tb.Fatal(err)
	}
	return og
}

// booked returns how many rows the handler has committed.
func booked(t *testing.T, og *oncegatetest.Inbox) (n int) {
	t.Helper()
	pool := inboxtest.Open(t, og.DatabaseURL, og.Schema, "admin", 1)
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM booked`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

var paid = oncegatetest.Delivery{Source: "stripe", EventID: "evt_1", Type: "invoice.paid"}

func TestAnEventDeliveredThreeTimesIsOne(t *testing.T) {
	t.Parallel()
	og := start(t, nil, nil)
	outcomes := map[string]int{}
	for _, a := range og.DeliverTogether(t, paid, paid, paid) {
		if a.Status != http.StatusOK || a.EventID != "evt_1" || a.Event == "" {
			t.Errorf("%+v", a)
		}
		outcomes[a.Outcome]++
	}
	if outcomes["recorded"] != 1 || outcomes["duplicate"] != 2 {
		t.Errorf("%v, want one recorded and two duplicates", outcomes)
	}
	og.Wait(t)
	if again := og.Deliver(t, paid); again.Outcome != "duplicate" {
		t.Errorf("later it is %s", again.Outcome)
	}
	og.Wait(t)
	if n := booked(t, og); n != 1 {
		t.Errorf("booked %d times", n)
	}
	if e := og.Effect(t, "stripe", "evt_1", "ledger"); e.State != oncegatetest.Done || e.Attempts != 1 || e.Reason != "" {
		t.Errorf("%+v", e)
	}
	// Without an id each delivery is another event. The handler has no route for another type.
	first, second := og.Deliver(t, oncegatetest.Delivery{Source: "stripe", Type: "invoice.paid"}), og.Deliver(t, oncegatetest.Delivery{Source: "stripe", Type: "charge.failed"})
	og.Wait(t)
	if n := booked(t, og); n != 2 || first.EventID == second.EventID {
		t.Errorf("booked %d times: %+v and %+v", n, first, second)
	}
	if effects := og.Effects(t, "stripe", second.EventID); len(effects) != 0 {
		t.Errorf("an event of another type has the effects %+v", effects)
	}
}

func TestErrorsOfHandlers(t *testing.T) {
	t.Parallel()
	calls := 0
	og := start(t, nil, func(e oncegate.Event) error {
		switch calls++; {
		case e.EventID == "evt_bad":
			return oncegate.Permanent(errors.New("no such customer"))
		case e.EventID == "evt_later" && calls < 4:
			return errors.New("not yet")
		}
		return nil
	})
	og.Deliver(t, oncegatetest.Delivery{Source: "stripe", EventID: "evt_bad", Type: "invoice.paid"})
	og.Wait(t)
	if e := og.Effect(t, "stripe", "evt_bad", "ledger"); e.State != oncegatetest.Dead || e.Attempts != 1 || !strings.Contains(e.Text, "no such customer") {
		t.Errorf("%+v", e)
	}
	og.Deliver(t, oncegatetest.Delivery{Source: "stripe", EventID: "evt_later", Type: "invoice.paid"})
	og.Wait(t)
	if e := og.Effect(t, "stripe", "evt_later", "ledger"); e.State != oncegatetest.Done || e.Attempts != 3 {
		t.Errorf("%+v", e)
	}
	if n := booked(t, og); n != 1 {
		t.Errorf("the failed attempts wrote: %d rows", n)
	}
}

// A test that would wait for hours is told at once which effect it waits for.
func TestWaitNamesARetryThatIsDueLater(t *testing.T) {
	t.Parallel()
	og := start(t, func(cfg *oncegate.Config) {
		cfg.Sources[0].Routes[0].Retry = oncegate.Retry{Attempts: 3, Base: time.Hour, Max: time.Hour}
	}, func(oncegate.Event) error { return errors.New("not yet") })
	og.Deliver(t, paid)
	began := time.Now()
	failures := inboxtest.Record(t, og.Wait)
	if len(failures) != 1 || !strings.Contains(failures[0], "shorten Retry") || !strings.Contains(failures[0], "stripe/evt_1 ledger: retry after 1 attempts") {
		t.Errorf("Wait reported %q", failures)
	}
	if took := time.Since(began); took > 50*time.Second {
		t.Errorf("Wait took %s, as if it waited for its limit", took)
	}
}

// An effect that is held behind a dead one waits for an operator, and Wait does not.
func TestWaitEndsAtABlockedStream(t *testing.T) {
	t.Parallel()
	og := start(t, func(cfg *oncegate.Config) {
		cfg.Sources[0].Routes[0].Order = oncegate.Order{Mode: "contiguous", Key: "body.customer", Number: "body.n", Start: "1", OnDead: "block"}
	}, func(e oncegate.Event) error {
		if e.EventID == "evt_1" {
			return oncegate.Permanent(errors.New("no"))
		}
		return nil
	})
	for _, body := range []string{`{"id":"evt_1","object":"event","type":"invoice.paid","customer":"c","n":1}`, `{"id":"evt_2","object":"event","type":"invoice.paid","customer":"c","n":2}`} {
		if a := og.Deliver(t, oncegatetest.Delivery{Source: "stripe", Body: []byte(body)}); a.Outcome != "recorded" || !strings.HasPrefix(a.EventID, "evt_") {
			t.Fatalf("%+v", a)
		}
	}
	og.Wait(t)
	if first, second := og.Effect(t, "stripe", "evt_1", "ledger"), og.Effect(t, "stripe", "evt_2", "ledger"); first.State != oncegatetest.Dead || second.State != oncegatetest.Held {
		t.Errorf("%+v, then %+v", first, second)
	}
}

// Deliveries reach the program's own server, where a wrong secret is refused and a middleware can break a signature.
func TestRequestsForTheProgramsServer(t *testing.T) {
	t.Parallel()
	og := start(t, nil, nil)
	mux := http.NewServeMux()
	mux.Handle("/hooks/", http.StripPrefix("/hooks", og.Handler()))
	status := func(d oncegatetest.Delivery, path string) int {
		r, w := og.Request(t, d), httptest.NewRecorder()
		r.URL.Path = path
		mux.ServeHTTP(w, r)
		return w.Code
	}
	if got := status(paid, "/hooks/in/stripe"); got != http.StatusOK {
		t.Errorf("mounted below another path: %d", got)
	}
	if got := status(paid, "/in/stripe"); got != http.StatusNotFound {
		t.Errorf("where nothing is mounted: %d", got)
	}
	wrong := paid
	wrong.Secret = "whsec_other"
	if a := og.Deliver(t, wrong); a.Status != http.StatusUnauthorized || a.Outcome != "refused" || a.Event != "" {
		t.Errorf("signed with another secret: %+v", a)
	}
	og.Wait(t)
	if n := booked(t, og); n != 1 {
		t.Errorf("booked %d times", n)
	}
}

// A delivery that cannot be made fails the test, with a line that says what to give.
func TestDeliveriesThatCannotBeMade(t *testing.T) {
	t.Parallel()
	og := start(t, func(cfg *oncegate.Config) {
		cfg.Sources = append(cfg.Sources,
			oncegate.Source{Name: "github", Secrets: []oncegate.Secret{oncegate.Value("a secret of github")}},
			oncegate.Source{Name: "calls", Provider: "operation", Credentials: []oncegate.Credential{{Name: "clerk", Secrets: []oncegate.Secret{oncegate.Value("a secret of 32 characters, at the least")}}}},
		)
	}, nil)
	for _, c := range []struct {
		delivery oncegatetest.Delivery
		says     string
	}{
		{oncegatetest.Delivery{Source: "strip"}, `no source is called "strip"; did you mean stripe?`},
		{oncegatetest.Delivery{Source: "calls"}, "source calls takes operations, not webhooks"},
		{oncegatetest.Delivery{Source: "github", Body: []byte(`{}`)}, "give Delivery.Type"},
		{oncegatetest.Delivery{Source: "stripe", Fixture: "github-push"}, "the fixture github-push is of provider github"},
		{oncegatetest.Delivery{Source: "stripe", Fixture: "stripe-invoice-pai"}, `did you mean stripe-invoice-paid?`},
		{oncegatetest.Delivery{Source: "stripe", Mode: "backwards"}, `mode "backwards" is unknown`},
		{oncegatetest.Delivery{Source: "stripe", Type: "x", Body: []byte(`[]`)}, "not a JSON object"},
	} {
		failures := inboxtest.Record(t, func(tb testing.TB) { tb.Helper(); og.Deliver(tb, c.delivery) })
		if len(failures) != 1 || !strings.Contains(failures[0], c.says) {
			t.Errorf("%+v: %q, want %q", c.delivery, failures, c.says)
		}
	}
	if a := og.Deliver(t, oncegatetest.Delivery{Source: "github", Type: "push", Body: []byte(`{"ref":"main"}`), Header: http.Header{"X-Test": {"yes"}}}); a.Outcome != "recorded" {
		t.Errorf("%+v", a)
	}
	for _, failures := range [][]string{
		inboxtest.Record(t, func(tb testing.TB) { tb.Helper(); og.Effects(tb, "github", "nothing") }),
		inboxtest.Record(t, func(tb testing.TB) { tb.Helper(); og.Effects(tb, "nothing", "evt_1") }),
	} {
		if len(failures) != 1 {
			t.Errorf("effects of nothing: %q", failures)
		}
	}
}

// Every fixture of the catalogue is delivered to a source of its sender and recorded.
func TestEveryFixtureIsRecorded(t *testing.T) {
	t.Parallel()
	cfg := oncegate.Config{DatabaseURL: inboxtest.URL(t)}
	known := new(catalog.Lazy)
	for _, f := range delivery.Fixtures() {
		secret, _ := providertest.SecretOf(t, testdata.Files, f.Provider)
		source := oncegate.Source{Name: f.Provider, Settings: map[string][]string{}, Secrets: []oncegate.Secret{oncegate.Value(secret)}}
		for _, setting := range known.Provider(f.Provider).Spec().Settings {
			if setting.Required {
				source.Settings[setting.Name] = setting.Example
			}
		}
		cfg.Sources = append(cfg.Sources, source)
	}
	og := oncegatetest.Start(t, cfg, nil)
	for _, f := range delivery.Fixtures() {
		d := oncegatetest.Delivery{Source: f.Provider, Fixture: f.Name}
		if a := og.Deliver(t, d); a.Event == "" || a.Status < 200 || a.Status > 299 || !slices.Contains([]string{"recorded", "acknowledged"}, a.Outcome) {
			t.Errorf("%s: %+v", f.Name, a)
		}
	}
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	one := []oncegate.Source{{Name: "stripe", Secrets: []oncegate.Secret{oncegate.Value("whsec_test")}, Routes: []oncegate.Route{{Name: "ledger"}}}}
	for _, c := range []struct {
		cfg  oncegate.Config
		says string
	}{
		{oncegate.Config{DatabaseURL: "postgres://127.0.0.1:1/none", Sources: one}, "127.0.0.1"},
		{oncegate.Config{DatabaseURL: inboxtest.URL(t)}, "Config.Sources is empty"},
		{oncegate.Config{DatabaseURL: inboxtest.URL(t), Sources: one}, "ledger"}, // has no handler
	} {
		failures := inboxtest.Record(t, func(tb testing.TB) { tb.Helper(); oncegatetest.Start(tb, c.cfg, nil) })
		if len(failures) == 0 || !strings.Contains(failures[0], c.says) {
			t.Errorf("%q, want %q", failures, c.says)
		}
	}
}

// A sender that signs with a private key and sends no ids: the test has a pair of keys of its own.
func TestASenderWithAPrivateKey(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	og := start(t, func(cfg *oncegate.Config) {
		cfg.Sources = append(cfg.Sources, oncegate.Source{Name: "discord", Secrets: []oncegate.Secret{oncegate.Value(hex.EncodeToString(public))}, Routes: []oncegate.Route{{Name: "ledger"}}})
	}, nil)
	d := oncegatetest.Delivery{Source: "discord", Secret: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))}
	first, second := og.Deliver(t, d), og.Deliver(t, d)
	if first.Status != http.StatusNoContent || second.Status != http.StatusNoContent || first.EventID == second.EventID {
		t.Errorf("%+v and %+v", first, second)
	}
	og.Wait(t)
	for _, a := range []oncegatetest.Answer{first, second} {
		if e := og.Effect(t, "discord", a.EventID, "ledger"); e.State != oncegatetest.Done {
			t.Errorf("%+v", e)
		}
	}
	// Without the private key, nothing can sign.
	d.Secret = ""
	failures := inboxtest.Record(t, func(tb testing.TB) { tb.Helper(); og.Deliver(tb, d) })
	if len(failures) != 1 || !strings.Contains(failures[0], "a public key cannot sign") {
		t.Errorf("%q", failures)
	}
}
