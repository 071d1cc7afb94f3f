package app_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/cmd/internal/app"
	"github.com/oncegate/oncegate/cmd/internal/config"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/providers/catalog"
)

// judged is what the tests' configurations have in common: two targets and one
// source, whose routes each test writes.
const judged = `
targets:
  billing: { kind: forward, url: "http://127.0.0.1:9/hooks/tok_9f3", idempotent: true, key_window: 1h, headers: { X-Team: env:SECRET } }
  other:   { kind: forward, url: "http://127.0.0.1:9/other", idempotent: true }
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

const forwardRoute = `      - { name: a, types: ["invoice.*"], target: billing }
`

func judgeConfig(t *testing.T, url, schema, file, secret string) *config.Config {
	t.Helper()
	cat, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Options{Catalog: cat, File: "oncegate.yml", Content: []byte(file), Environ: []string{
		"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0", "SECRET=" + secret,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// registered writes the sources and routes of a configuration, as a start does.
func registered(t *testing.T, cfg *config.Config) {
	t.Helper()
	a, err := app.New(t.Context(), app.Config{Settings: cfg, Logger: slog.New(slog.DiscardHandler), Receive: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// recorded is the event as the database has it, with one dead effect of route a.
func recordedEvent(route int32) *inbox.RecordedEvent {
	at := time.Unix(1700000000, 0).UTC()
	return &inbox.RecordedEvent{
		Event: inbox.ClaimedEvent{
			ID: inbox.NewID(at), EventID: "evt_1", Type: "invoice.paid", OccurredAt: at, ReceivedAt: at, Body: []byte(judgedBody),
			Headers: []byte(`{"Content-Type":["application/json"],"Stripe-Signature":["` + judgedSignature + `"]}`),
		},
		SourceID: 1, Source: "stripe", Delivery: []byte(judgedBody), Length: len(judgedBody),
		Effects: []inbox.RecordedEffect{{
			Effect: inbox.NewID(at), RouteID: route, Route: "a", RouteVersion: 1, Target: "billing", State: inbox.EffectDead,
			Reason: inbox.ReasonExhausted, Version: 1, Attempts: 12, Key: "stripe/evt_1/a", LastCode: "503",
		}},
	}
}

type verdictCase struct {
	yesterday, today string // routes; today's defaults to yesterday's
	secret           string // today's
	event            func(r *inbox.RecordedEvent)
	now              time.Time

	want    inbox.Verdict
	says    []string // in the diff
	without []string
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	const mapped = `      - { name: a, types: ["invoice.*"], target: billing, map: { sum: body.data.object.total, api_key: event.id, nickname: body.data.object.email, to: body.data.object.id } }
`
	const remapped = `      - { name: a, types: ["invoice.*"], target: billing, map: { sum: body.data.object.total * 100, api_key: event.type, nickname: event.id, to: body.data.object.id } }
`
	const mailed = `      - { name: a, types: ["invoice.*"], target: post, mail: { to: body.data.object.email, subject: "Paid {{ .Body.data.object.total }}", text: hello } }
`
	stored := func(text string) func(r *inbox.RecordedEvent) {
		return func(r *inbox.RecordedEvent) { r.Effects[0].Rendered = []byte(text) }
	}
	for name, c := range map[string]verdictCase{
		"same": {
			yesterday: forwardRoute, want: inbox.VerdictSame,
			says:    []string{`"signature":"verified by current"`, `"state":"dead"`, `"last_code":"503"`, `"key":"stripe/evt_1/a"`, `"address":"http://127.0.0.1:9/..."`, `"from":"received"`},
			without: []string{`"today"`, `"changes"`, `"identity"`, "tok_9f3"},
		},
		"same, with the secret rotated": {
			yesterday: forwardRoute, secret: "whsec_new", want: inbox.VerdictSame, says: []string{`"signature":"not verified: mismatch`}, without: []string{`"identity"`, "whsec"},
		},
		"same, since the stored bytes are sent again": {
			yesterday: mapped, today: remapped, event: stored(`{"api_key":"x","nickname":"n","sum":12,"to":"in_1"}`), want: inbox.VerdictSame,
			says: []string{`"from":"stored"`, `{"path":"sum","before":"12","after":"1200"}`, "unused_changes", "needs a new key"}, without: []string{`"changes":`},
		},
		"under way":     {yesterday: forwardRoute, event: func(r *inbox.RecordedEvent) { r.Effects[0].State = inbox.EffectRetry }, want: inbox.VerdictSame, says: []string{"under way: retry"}},
		"done":          {yesterday: forwardRoute, event: func(r *inbox.RecordedEvent) { r.Effects[0].State = inbox.EffectDone }, want: inbox.VerdictDone, says: []string{"it is done"}},
		"indeterminate": {yesterday: forwardRoute, event: func(r *inbox.RecordedEvent) { r.Effects[0].State = inbox.EffectIndeterminate }, want: inbox.VerdictSame},
		"done, under a new key": {
			yesterday: forwardRoute, event: func(r *inbox.RecordedEvent) { r.NewKey, r.Effects[0].State = true, inbox.EffectDone },
			want: inbox.VerdictOtherKey, says: []string{"under a new key", `"key":"a new one"`}, without: []string{`"Idempotency-Key"`},
		},
		"another target": {
			yesterday: forwardRoute, today: `      - { name: a, types: ["invoice.*"], target: other }
`, want: inbox.VerdictOtherTarget,
			says:    []string{`"target":"billing"`, `"target":"other"`, `"Idempotency-Key":"stripe/evt_1/a"`, `"Oncegate-Event-Type":"invoice.paid"`},
			without: []string{"tok_9f3", "Webhook-Signature"},
		},
		"another body, not rendered before": {
			yesterday: forwardRoute, today: remapped, want: inbox.VerdictOtherBody,
			says: []string{
				`{"path":"sum","after":"1200"}`, `{"path":"nickname","after":"\"<redacted>\""}`, `{"path":"api_key","after":"\"<redacted>\""}`,
				`{"path":"data","before":"{\"object\":{\"email\":\"<redacted>\",\"id\":\"in_1\",\"total\":12}}"}`,
				// The RFC 8785 form of the mapped body is what encoding/json writes of it;
				// printf '{"api_key":"invoice.paid","nickname":"evt_1","sum":1200,"to":"in_1"}' | sha256sum
				`"canonical_sha256":"abdd3764cce4355e1602374967f22f704d58f8f5af30e81ab7f52a8a3f9d3c95"`, `"X-Team":"<secret>"`,
			},
			without: []string{"a@example.com", "tok_9f3", "whsec_test"},
		},
		"another body, of what may have happened": {
			yesterday: forwardRoute, today: mapped, event: func(r *inbox.RecordedEvent) { r.Effects[0].UnknownSince = r.Event.ReceivedAt },
			want: inbox.VerdictOtherBody, says: []string{"may have happened with the earlier body"},
		},
		"another body, after a mapping that failed": {
			yesterday: `      - { name: a, types: ["invoice.*"], target: billing, map: body.data.gone.total }
`, today: mapped,
			event: func(r *inbox.RecordedEvent) { r.Effects[0].Reason = inbox.ReasonMapping },
			want:  inbox.VerdictOtherBody, says: []string{"no request was made before", `"from":"rendered"`}, without: []string{`"changes":`, "a@example.com"},
		},
		"another key, by the recipe": {
			yesterday: `      - { name: a, types: ["invoice.*"], target: billing, assume_idempotent: true, key: [body.data.object.id] }
`, today: `      - { name: a, types: ["invoice.*"], target: billing, assume_idempotent: true, key: [body.data.object.total] }
`,
			event: func(r *inbox.RecordedEvent) { r.Effects[0].KeyHash = []byte(strings.Repeat("k", 32)) },
			want:  inbox.VerdictOtherKey, says: []string{"another key", `"key_hash":"` + strings.Repeat("6b", 32) + `"`},
		},
		"another key, since the target has forgotten it": {
			yesterday: forwardRoute, event: func(r *inbox.RecordedEvent) { r.Effects[0].UnknownSince = r.Event.ReceivedAt },
			now: time.Unix(1700000000+3600, 0), want: inbox.VerdictOtherKey, says: []string{"key_window"}, without: []string{`"today"`},
		},
		"the key is still known": {
			yesterday: forwardRoute, event: func(r *inbox.RecordedEvent) { r.Effects[0].UnknownSince = r.Event.ReceivedAt },
			now: time.Unix(1700000000+3599, 0), want: inbox.VerdictSame,
		},
		"no such route":    {yesterday: forwardRoute, today: strings.ReplaceAll(forwardRoute, "name: a", "name: b"), want: inbox.VerdictNoRoute, says: []string{"the route is not in the configuration"}},
		"no longer taken":  {yesterday: forwardRoute, today: strings.ReplaceAll(forwardRoute, "invoice.*", "charge.*"), want: inbox.VerdictNoRoute, says: []string{"no longer takes the type"}},
		"condition, false": {yesterday: forwardRoute, today: strings.ReplaceAll(forwardRoute, "target:", "when: body.data.object.total > 100, target:"), want: inbox.VerdictNoRoute, says: []string{"its condition is false"}},
		"condition, not asked of what may have happened": {
			yesterday: forwardRoute, today: strings.ReplaceAll(forwardRoute, "target:", "when: body.data.object.total > 100, target:"),
			event: func(r *inbox.RecordedEvent) { r.Effects[0].UnknownSince = r.Event.ReceivedAt }, want: inbox.VerdictSame,
		},
		"cannot render: the body is gone": {
			yesterday: forwardRoute, event: func(r *inbox.RecordedEvent) { r.Delivery, r.Event.Body, r.Event.BodyGone = nil, nil, true },
			want: inbox.VerdictCannotRender, says: []string{"the body is gone"},
		},
		"cannot render: the mapping fails": {
			yesterday: forwardRoute, today: strings.ReplaceAll(forwardRoute, "target:", "map: body.data.gone.total, target:"),
			want: inbox.VerdictCannotRender, says: []string{"mapping_failed: map: body.data.gone.total"}, without: []string{"a@example.com"},
		},
		"mail, to somebody else": {
			yesterday: mailed, event: func(r *inbox.RecordedEvent) {
				r.NewKey = true
				stored("From: <shop@example.com>\r\nTo: <b@example.com>\r\nSubject: Paid 12\r\n\r\nhello")(r)
			},
			want: inbox.VerdictOtherKey, says: []string{`{"path":"To","before":"<b@example.com>","after":"<a@example.com>"}`}, without: []string{`"path":"Subject"`},
		},
		"another identity": {
			yesterday: forwardRoute, event: func(r *inbox.RecordedEvent) { r.Event.EventID, r.Event.Type = "evt_0", "invoice.void" },
			want: inbox.VerdictSame, says: []string{`{"path":"event_id","before":"evt_0","after":"evt_1"}`, `{"path":"type","before":"invoice.void","after":"invoice.paid"}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			judgement := judgeOne(t, &c)
			if len(judgement) == 0 || judgement[0].Verdict != c.want {
				t.Fatalf("%+v, want %s", judgement, c.want)
			}
			diff := string(judgement[0].Diff)
			for _, text := range c.says {
				if !strings.Contains(diff, text) {
					t.Errorf("the diff lacks %s:\n%s", text, diff)
				}
			}
			for _, text := range append(c.without, judgedSignature[15:]) {
				if strings.Contains(diff, text) {
					t.Errorf("the diff has %s:\n%s", text, diff)
				}
			}
		})
	}
}

func judgeOne(t *testing.T, c *verdictCase) []inbox.Judgement {
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
	pool := inboxtest.Open(t, url, schema, inbox.PoolAdmin, 2)
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
	registry, err := inbox.ReadRegistry(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	r := recordedEvent(registry.Sources["stripe"].Routes["a"].ID)
	r.SourceID = registry.Sources["stripe"].ID
	if c.event != nil {
		c.event(r)
	}
	judgements, err := judge.Judge(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return judgements
}

// A route that the event's admission did not know is told, unless its condition
// is false.
func TestNewRoutes(t *testing.T) {
	t.Parallel()
	judgements := judgeOne(t, &verdictCase{yesterday: forwardRoute, today: forwardRoute + `      - { name: late, types: ["*"], target: other }
      - { name: never, types: ["*"], target: other, when: body.data.object.total > 100 }
      - { name: charges, types: ["charge.*"], target: other }
`})
	if len(judgements) != 2 || judgements[0].Verdict != inbox.VerdictSame || judgements[1].Verdict != inbox.VerdictNewRoute || !judgements[1].Effect.IsZero() || judgements[1].RouteID == 0 {
		t.Fatalf("%+v, want same, new_route", judgements)
	}
	diff, err := inbox.ReadDiff(judgements[1].Diff)
	if err != nil {
		t.Fatal(err)
	}
	if diff.Route != "late" || diff.Recorded != nil || diff.Today == nil || diff.Today.Target != "other" {
		t.Errorf("%s", judgements[1].Diff)
	}
}

// A key that another effect owns makes a duplicate of it: nothing would be sent.
func TestAnOwnedKey(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	cfg := judgeConfig(t, url, schema, judged+`      - { name: a, types: ["invoice.*"], target: billing, assume_idempotent: true, key: [body.data.object.id] }
`, "whsec_test")
	registered(t, cfg)
	pool := inboxtest.Open(t, url, schema, inbox.PoolAdmin, 2)
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
	var diff inbox.Diff
	if err := json.Unmarshal(judgements[0].Diff, &diff); err != nil {
		t.Fatal(err)
	}
	if diff.Verdict != inbox.VerdictOtherKey || diff.Today != nil || !strings.Contains(strings.Join(diff.Why, ";"), "owned by effect "+owner.String()) {
		t.Errorf("%s", judgements[0].Diff)
	}
}

// What no server was started with is told apart from what is in the database.
func TestAJudgeTellsWhatTheServersDoNotKnow(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	registered(t, judgeConfig(t, url, schema, judged+forwardRoute, "whsec_test"))
	pool := inboxtest.Open(t, url, schema, inbox.PoolAdmin, 2)
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
	if len(judgements) != 1 || judgements[0].Verdict != inbox.VerdictOtherTarget || !strings.Contains(string(judgements[0].Diff), "no server was started with this version") {
		t.Errorf("%s", judgements[0].Diff)
	}
}
