package app_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/refusal"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/session"
)

// A botched rotation: the sender signs with a secret that the server does not
// know, and what it sent is admitted afterwards, once, by the same gate.
func TestReverify(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	t.Cleanup(target.Close)
	url, schema := inboxtest.Schema(t)
	file := `
targets: { there: { kind: forward, url: "` + target.URL + `", idempotent: true } }
sources: { stripe: { provider: stripe, secrets: [env:SECRET], routes: [{ name: a, target: there }] } }
`
	botched, mended := judgeConfig(t, url, schema, file, "whsec_old"), judgeConfig(t, url, schema, file, "whsec_new")
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	a := newApp(t, botched)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	created := time.Now().Unix()
	send := func(secret, id string) int {
		t.Helper()
		body := fmt.Sprintf(`{"id":%q,"object":"event","created":%d,"type":"invoice.paid"}`, id, created)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+a.PublicAddr().String()+"/in/stripe", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Stripe-Signature", rig.StripeSignature(secret, time.Now(), []byte(body)))
		response, err := client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	for i := range 7 {
		if status := send("whsec_new", fmt.Sprint("evt_", i)); status != http.StatusUnauthorized {
			t.Fatalf("status %d", status)
		}
	}
	send("whsec_new", "evt_1")    // the sender's retry
	send("whsec_forged", "evt_9") // somebody else
	if status := send("whsec_old", "evt_2"); status != http.StatusOK {
		t.Fatalf("status %d", status) // the sender delivered it again under the old secret
	}
	inboxtest.Until(t, "the refusals are kept", func() bool { return rowsOf(t, pool, `SELECT count(*) FROM refusal WHERE whole`) == 9 })
	inboxtest.Until(t, "one effect done", func() bool { return rowsOf(t, pool, `SELECT count(*) FROM effect WHERE state = 'done'`) == 1 })
	if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}

	reverify := func(cfg *config.Config, dry bool) refusal.ReverifyReport {
		t.Helper()
		report, err := app.Reverify(t.Context(), app.ReverifyConfig{
			Settings: cfg, Logger: slog.New(slog.DiscardHandler), Source: "stripe", DryRun: dry, Actor: "ann", Reason: "rotation of the 21st",
		})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	before := inboxtest.Tables(t, pool)
	want := refusal.ReverifyReport{Examined: 9, Refused: 1, Verified: 8, Recorded: 6, Duplicates: 2}
	if got := reverify(mended, true); got != want {
		t.Errorf("the dry run says %+v, want %+v", got, want)
	}
	if changed := inboxtest.Changed(before, inboxtest.Tables(t, pool)); len(changed) > 0 {
		t.Errorf("a dry run changed %v", changed)
	}
	if got := reverify(botched, false); got.Refused != 9 {
		t.Errorf("with the old secret: %+v", got)
	}
	// A run that may admit something says in stat_flush that it counts.
	if changed := inboxtest.Changed(before, inboxtest.Tables(t, pool)); len(changed) > 0 && !slices.Equal(changed, []string{"stat_flush"}) {
		t.Errorf("nothing was to be written, yet %v changed", changed)
	}
	if got := reverify(mended, false); got != want {
		t.Errorf("the run did %+v, want %+v, as the dry run said", got, want)
	}
	if n := rowsOf(t, pool, `SELECT count(*) FROM refusal`); n != 1 {
		t.Errorf("%d refusals left, want the forged one", n)
	}
	if n := rowsOf(t, pool, `SELECT count(*) FROM inbox_event`); n != 7 {
		t.Errorf("%d events, want 7", n)
	}
	if n := rowsOf(t, pool, `SELECT count(*) FROM audit WHERE actor = 'ann' AND action = 'refusals.reverify' AND object = 'source/stripe'
		AND (before->>'refusals')::int = 8 AND (after->>'recorded')::int = 6`); n != 1 {
		t.Error("no entry in the audit says so")
	}
	if got := reverify(mended, false); got.Examined != 1 || got.Verified != 0 {
		t.Errorf("a second run did %+v", got)
	}
	// Admitted as if they had verified then, effects and all.
	again := newApp(t, mended)
	if err := again.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	inboxtest.Until(t, "all effects done", func() bool { return rowsOf(t, pool, `SELECT count(*) FROM effect WHERE state = 'done'`) == 7 })
	if err := again.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if calls.Load() != 7 {
		t.Errorf("%d calls, want 7", calls.Load())
	}
}

// The gate comes first: what it did not take stays refused, what it took is gone
// from the refusals even if the run ends there.
func TestReverifyTakesNothingAwayBeforeTheGateHasIt(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	refused := make([]inbox.ID, 5)
	for i := range refused {
		refused[i] = inbox.NewID(time.Now())
		_, err := pool.Exec(t.Context(), `INSERT INTO refusal (id, source_id, received_at, cause, diagnosis, whole, method, url, remote, headers, body, size)
			SELECT $1, id, now(), 'mismatch', '', true, 'POST', '/in/a', '', '{}', 'x', 1 FROM (SELECT 7) s (id)`, refused[i])
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO source (id, name, provider, class) OVERRIDING SYSTEM VALUE VALUES (7, 'a', 'p', 'default')`); err != nil {
		t.Fatal(err)
	}
	g := &flakyGate{pool: pool, fail: 3}
	run := refusal.Reverify{
		Pool: pool, Gate: g, Source: 7, Name: "a", Actor: "ann", Reason: "mended", Page: 2,
		Verify: func(*read.RefusalDetail) (*inbox.Admission, error) {
			return &inbox.Admission{Events: []inbox.NewEvent{{EventID: "e"}}}, nil
		},
	}
	report, err := run.Run(t.Context())
	if !errors.Is(err, gate.ErrOverloaded) || report.Verified != 3 || rowsOf(t, pool, `SELECT count(*) FROM refusal`) != 2 {
		t.Errorf("%+v, %v, %d left, want 3 admitted and 2 left", report, err, rowsOf(t, pool, `SELECT count(*) FROM refusal`))
	}
	g.fail = -1
	if report, err = run.Run(t.Context()); err != nil || report.Verified != 2 || rowsOf(t, pool, `SELECT count(*) FROM refusal`) != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	if !slices.Equal(g.left, []int{5, 5, 3, 3, 2, 2}) {
		t.Errorf("when the gate was asked, %v refusals were there; want none taken away before its page", g.left)
	}
	run.Reason = " "
	if _, err := run.Run(t.Context()); !errors.Is(err, inbox.ErrUnexplained) {
		t.Errorf("without a reason: %v", err)
	}
}

type flakyGate struct {
	pool  *pgxpool.Pool
	fail  int
	calls int
	left  []int
}

func (g *flakyGate) Accept(ctx context.Context, _ *inbox.Admission) (inbox.Receipt, error) {
	if g.pool != nil {
		var n int
		if err := g.pool.QueryRow(ctx, `SELECT count(*) FROM refusal`).Scan(&n); err != nil {
			return inbox.Receipt{}, err
		}
		g.left = append(g.left, n)
	}
	if g.calls == g.fail {
		return inbox.Receipt{}, gate.ErrOverloaded
	}
	g.calls++
	return inbox.Receipt{Items: []inbox.ItemReceipt{{Outcome: inbox.Recorded}}}, nil
}

func rowsOf(t *testing.T, pool *pgxpool.Pool, sql string) int {
	t.Helper()
	var n int
	if err := pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
