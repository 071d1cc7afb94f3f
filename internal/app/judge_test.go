package app_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// judged is what the tests' configurations have in common: two targets and one
// source, whose routes each test writes.
const judged = `
targets:
  billing: { kind: forward, url: "http://127.0.0.1:9/hooks/tok_9f3", idempotent: true, key_window: 1h, headers: { X-Team: env:SECRET } }
  other:   { kind: forward, url: "http://127.0.0.1:9/other", idempotent: true }
  placed:  { kind: forward, url: "http://127.0.0.1:9/v1/{body.data.object.id}", method: PUT, idempotent: true }
  moved:   { kind: forward, url: "http://127.0.0.1:9/v2/{body.data.object.id}?of={event.id}", method: PUT, idempotent: true }
  lacking: { kind: forward, url: "http://127.0.0.1:9/{body.data.object.gone}", idempotent: true }
  private: { kind: forward, url: "http://127.0.0.1:9/{body.data.object.email}", idempotent: true }
  post:    { kind: mail, smtp: "smtp://127.0.0.1:25", from: "shop@example.com", starttls: "off" }
sources:
  stripe:
    provider: stripe
    secrets: [{ env: SECRET, name: current }]
    redact: [data.object.email, nickname]
    routes:
`

// The event of the tests and its signature under whsec_test at 1700000000, made by
// openssl: printf '1700000000.%s' "$body" | openssl dgst -sha256 -hmac whsec_test.
const (
	judgedBody      = `{"id":"evt_1","object":"event","type":"invoice.paid","created":1700000000,"data":{"object":{"id":"in_1","total":12,"email":"a@example.com"}}}`
	judgedSignature = "t=1700000000,v1=94b911c40421bfca13ca7c2dfe047d84e4e501ded1bb7cc9e8dec82544bf75ab"
)

const placedRoute = `      - { name: a, types: ["invoice.*"], target: placed }
`

const forwardRoute = `      - { name: a, types: ["invoice.*"], target: billing }
`

func judgeConfig(tb testing.TB, url, schema, file, secret string) *config.Config {
	tb.Helper()
	cat := catalogtest.Load(tb)
	cfg, err := config.Load(config.Options{Catalog: cat, File: "oncegate.yml", Content: []byte(file), Environ: []string{
		"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0", "SECRET=" + secret,
	}})
	if err != nil {
		tb.Fatal(err)
	}
	return cfg
}

// registered writes the sources and routes of a configuration, as a start does.
func registered(tb testing.TB, cfg *config.Config) {
	tb.Helper()
	a, err := app.New(tb.Context(), app.Config{Settings: cfg, Logger: slog.New(slog.DiscardHandler), Receive: true})
	if err != nil {
		tb.Fatal(err)
	}
	if err := a.Stop(context.WithoutCancel(tb.Context())); err != nil {
		tb.Fatal(err)
	}
}

// recorded is the event as the database has it, with one dead effect of route a.
func recordedEvent(route int32) *replay.RecordedEvent {
	at := time.Unix(1700000000, 0).UTC()
	return &replay.RecordedEvent{
		Event: inbox.ClaimedEvent{
			ID: inbox.NewID(at), EventID: "evt_1", Type: "invoice.paid", OccurredAt: at, ReceivedAt: at, Body: []byte(judgedBody),
			Headers: []byte(`{"Content-Type":["application/json"],"Stripe-Signature":["` + judgedSignature + `"]}`),
		},
		SourceID: 1, Source: "stripe", Delivery: []byte(judgedBody), Length: len(judgedBody),
		Effects: []replay.RecordedEffect{{
			Effect: inbox.NewID(at), RouteID: route, Route: "a", RouteVersion: 1, Target: "billing", State: inbox.EffectDead,
			Reason: reasons.Exhausted, Version: 1, Attempts: 12, Key: "stripe/evt_1/a", LastCode: "503",
		}},
	}
}

// judgeOf is the judge of a case's configuration of today, and the event.
func judgeOf(t *testing.T, c *verdictCase) (*app.Judge, func() *replay.RecordedEvent) {
	t.Helper()
	url, schema := inboxtest.Schema(t)
	registered(t, judgeConfig(t, url, schema, judged+c.yesterday, "whsec_test"))
	if c.today == "" {
		c.today = c.yesterday
	}
	if c.secret == "" {
		c.secret = "whsec_test"
	}
	today := judgeConfig(t, url, schema, judged+c.today, c.secret)
	registered(t, today)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	now := c.now
	if now.IsZero() {
		now = time.Unix(1700000060, 0)
	}
	judge, err := app.NewJudge(t.Context(), app.JudgeConfig{Settings: today, Pool: pool, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	if len(judge.Stale)+len(judge.Unregistered) > 0 {
		t.Errorf("stale %v, unregistered %v", judge.Stale, judge.Unregistered)
	}
	registry, err := registry.Read(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	return judge, func() *replay.RecordedEvent {
		r := recordedEvent(registry.Sources["stripe"].Routes["a"].ID)
		r.SourceID = registry.Sources["stripe"].ID
		if c.event != nil {
			c.event(r)
		}
		return r
	}
}

// A route that the event's admission did not know is told, unless its condition
// is false.
func TestNewRoutes(t *testing.T) {
	t.Parallel()
	judge, event := judgeOf(t, &verdictCase{yesterday: forwardRoute, today: forwardRoute + `      - { name: late, types: ["*"], target: other }
      - { name: never, types: ["*"], target: other, when: body.data.object.total > 100 }
      - { name: charges, types: ["charge.*"], target: other }
`})
	judgements, err := judge.Judge(t.Context(), event())
	if err != nil {
		t.Fatal(err)
	}
	if len(judgements) != 2 || judgements[0].Verdict != replay.VerdictSame || judgements[1].Verdict != replay.VerdictNewRoute || !judgements[1].Effect.IsZero() || judgements[1].RouteID == 0 {
		t.Fatalf("%+v, want same, new_route", judgements)
	}
	diff, err := replay.ReadDiff(judgements[1].Diff)
	if err != nil {
		t.Fatal(err)
	}
	if diff.Route != "late" || diff.Recorded != nil || diff.Today == nil || diff.Today.Target != "other" {
		t.Errorf("%s", judgements[1].Diff)
	}
}

// One that is ordered is told as well, with why no effect can be made for it now.
func TestNewRoutesInOrder(t *testing.T) {
	t.Parallel()
	judge, event := judgeOf(t, &verdictCase{yesterday: forwardRoute, today: forwardRoute + `      - { name: late, types: ["*"], target: other, order: { mode: arrival, key: body.data.object.id } }
`})
	judgements, err := judge.Judge(t.Context(), event())
	if err != nil {
		t.Fatal(err)
	}
	if len(judgements) != 2 || judgements[0].Ordered || !judgements[1].Ordered || judgements[1].Verdict != replay.VerdictCannotRender ||
		!strings.Contains(string(judgements[1].Diff), "no place in its sequence") {
		t.Fatalf("%+v, want the second one ordered", judgements)
	}
}

// A key that another effect owns makes a duplicate of it: nothing would be sent.
func TestAnOwnedKey(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	cfg := judgeConfig(t, url, schema, judged+`      - { name: a, types: ["invoice.*"], target: billing, assume_idempotent: true, key: [body.data.object.id] }
`, "whsec_test")
	registered(t, cfg)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	judge, err := app.NewJudge(t.Context(), app.JudgeConfig{Settings: cfg, Pool: pool, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r := recordedEvent(1)
	owner := inbox.NewID(r.Event.ReceivedAt)
	// printf '[1,"in_1"]' | sha256sum
	if _, err := pool.Exec(t.Context(), `INSERT INTO effect_key (route_id, key_hash, effect_id, received_at) VALUES (1, decode('9c634754ff869cc6e2e2f7eb825a095ae959fe7d07accf89dfa7324448c8c972', 'hex'), $1, now())`, owner); err != nil {
		t.Fatal(err)
	}
	judgements, err := judge.Judge(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	var diff replay.Diff
	if err := json.Unmarshal(judgements[0].Diff, &diff); err != nil {
		t.Fatal(err)
	}
	if diff.Verdict != replay.VerdictOtherKey || diff.Today != nil || !strings.Contains(strings.Join(diff.Why, ";"), "owned by effect "+owner.String()) {
		t.Errorf("%s", judgements[0].Diff)
	}
}

// What no server was started with is told apart from what is in the database.
func TestAJudgeTellsWhatTheServersDoNotKnow(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	registered(t, judgeConfig(t, url, schema, judged+forwardRoute, "whsec_test"))
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	today := judgeConfig(t, url, schema, judged+strings.ReplaceAll(forwardRoute, "billing", "other")+`      - { name: late, target: other }
`, "whsec_test")
	judge, err := app.NewJudge(t.Context(), app.JudgeConfig{Settings: today, Pool: pool, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(judge.Stale, " ") != "stripe/a" || strings.Join(judge.Unregistered, " ") != "stripe/late" {
		t.Errorf("stale %v, unregistered %v", judge.Stale, judge.Unregistered)
	}
	judgements, err := judge.Judge(t.Context(), recordedEvent(1))
	if err != nil {
		t.Fatal(err)
	}
	if len(judgements) != 1 || judgements[0].Verdict != replay.VerdictOtherTarget || !strings.Contains(string(judgements[0].Diff), "no server was started with this version") {
		t.Errorf("%s", judgements[0].Diff)
	}
}
