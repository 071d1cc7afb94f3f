package app_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/app"
)

type verdictCase struct {
	yesterday, today string // routes; today's defaults to yesterday's
	secret           string // today's
	event            func(r *replay.RecordedEvent)
	now              time.Time

	want    replay.Verdict
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
	discarded := func(asked bool) func(r *replay.RecordedEvent) {
		return func(r *replay.RecordedEvent) {
			r.Includes = func(reason reasons.Reason) bool { return asked && reason == reasons.Discarded }
			r.Effects[0].State, r.Effects[0].Reason = inbox.EffectSkipped, reasons.Discarded
		}
	}
	ordered := func(mode string) string {
		return strings.ReplaceAll(forwardRoute, "target:", "order: { mode: "+mode+", key: body.data.object.id, number: '7' }, target:")
	}
	sequenced := func(number, applied string) func(r *replay.RecordedEvent) {
		return func(r *replay.RecordedEvent) {
			e := &r.Effects[0]
			e.SequenceKeyHash, e.SequenceNumber, e.Applied = inbox.SequenceKeyHash("stripe", "a", "in_1"), number, applied
		}
	}
	stored := func(text string) func(r *replay.RecordedEvent) {
		return func(r *replay.RecordedEvent) { r.Effects[0].Rendered = []byte(text) }
	}
	var noticed sync.Map
	for name, c := range map[string]verdictCase{
		"same": {
			yesterday: forwardRoute, want: replay.VerdictSame,
			says:    []string{`"signature":"verified by current"`, `"state":"dead"`, `"last_code":"503"`, `"key":"stripe/evt_1/a"`, `"address":"http://127.0.0.1:9/..."`, `"from":"received"`},
			without: []string{`"today"`, `"changes"`, `"identity"`, "tok_9f3"},
		},
		"same, with the secret rotated": {
			yesterday: forwardRoute, secret: "whsec_new", want: replay.VerdictSame, says: []string{`"signature":"not verified: mismatch`}, without: []string{`"identity"`, "whsec"},
		},
		"same, since the stored bytes are sent again": {
			yesterday: mapped, today: remapped, event: stored(`{"api_key":"x","nickname":"n","sum":12,"to":"in_1"}`), want: replay.VerdictSame,
			says: []string{`"from":"stored"`, `{"path":"sum","before":"12","after":"1200"}`, "unused_changes", "needs a new key"}, without: []string{`"changes":`},
		},
		"under way":                {yesterday: forwardRoute, event: func(r *replay.RecordedEvent) { r.Effects[0].State = inbox.EffectRetry }, want: replay.VerdictSame, says: []string{"under way: retry"}},
		"done":                     {yesterday: forwardRoute, event: func(r *replay.RecordedEvent) { r.Effects[0].State = inbox.EffectDone }, want: replay.VerdictDone, says: []string{"it is done"}},
		"discarded":                {yesterday: forwardRoute, event: discarded(false), want: replay.VerdictDone, says: []string{"it is skipped"}},
		"discarded, and asked for": {yesterday: forwardRoute, event: discarded(true), want: replay.VerdictSame},
		"indeterminate":            {yesterday: forwardRoute, event: func(r *replay.RecordedEvent) { r.Effects[0].State = inbox.EffectIndeterminate }, want: replay.VerdictSame},
		"done, under a new key": {
			yesterday: forwardRoute, event: func(r *replay.RecordedEvent) { r.NewKey, r.Effects[0].State = true, inbox.EffectDone },
			want: replay.VerdictOtherKey, says: []string{"under a new key", `"key":"stripe/evt_1/a~v2"`}, without: []string{`"Idempotency-Key"`},
		},
		"the address that was stored, though today's differs": {
			yesterday: placedRoute, today: strings.ReplaceAll(placedRoute, "target: placed", "target: moved"),
			event: stored("\x00address http://127.0.0.1:9/v1/in_1\nreceived\n"), want: replay.VerdictOtherTarget,
			says: []string{
				`"address":"http://127.0.0.1:9/v1/in_1"`, `{"path":"address","before":"http://127.0.0.1:9/v1/in_1","after":"http://127.0.0.1:9/v2/in_1?of=xxxxx"}`,
				"needs a new key",
			},
		},
		"the address that is stored": {
			yesterday: placedRoute, event: stored("\x00address http://127.0.0.1:9/v1/in_1\nreceived\n"), want: replay.VerdictSame,
			says: []string{`"address":"http://127.0.0.1:9/v1/in_1"`, `"from":"received"`}, without: []string{`"today"`, "unused"},
		},
		"the address today, under a new key": {
			yesterday: placedRoute, today: strings.ReplaceAll(placedRoute, "target: placed", "target: moved"),
			event: func(r *replay.RecordedEvent) {
				r.NewKey = true
				stored("\x00address http://127.0.0.1:9/v1/in_1\nbody\n{}")(r)
			}, want: replay.VerdictOtherKey,
			says: []string{`"address":"http://127.0.0.1:9/v1/in_1"`, `"address":"http://127.0.0.1:9/v2/in_1?of=xxxxx"`},
		},
		"another server, of what may have happened": {
			yesterday: placedRoute, event: func(r *replay.RecordedEvent) {
				stored("\x00address http://127.0.0.1:8/v1/in_1\nreceived\n")(r)
				r.Effects[0].UnknownSince = r.Event.ReceivedAt
			}, want: replay.VerdictOtherKey, says: []string{"at another address", "it becomes indeterminate, nothing is sent"},
		},
		"another server, of what certainly did not happen": {
			yesterday: placedRoute, event: stored("\x00address http://127.0.0.1:8/v1/in_1\nreceived\n"), want: replay.VerdictOtherTarget,
			says: []string{`"address":"http://127.0.0.1:8/v1/in_1"`, `"address":"http://127.0.0.1:9/v1/in_1"`},
		},
		"cannot render: the address lacks a value": {
			yesterday: strings.ReplaceAll(placedRoute, "placed", "lacking"), want: replay.VerdictCannotRender,
			says: []string{"mapping_failed: url: body.data.object.gone: a field is missing"},
		},
		"an address of what is redacted is shown as far as its host": {
			yesterday: strings.ReplaceAll(placedRoute, "placed", "private"), want: replay.VerdictOtherTarget,
			event: stored("\x00address http://127.0.0.1:8/a%40example.com\nreceived\n"),
			says:  []string{`"address":"http://127.0.0.1:9/..."`}, without: []string{"example.com"},
		},
		"another target": {
			yesterday: forwardRoute, today: `      - { name: a, types: ["invoice.*"], target: other }
`, want: replay.VerdictOtherTarget,
			says:    []string{`"target":"billing"`, `"target":"other"`, `"Oncegate-Event-Type":"invoice.paid"`},
			without: []string{"tok_9f3", "Webhook-Signature", "Idempotency-Key"},
		},
		"another body, not rendered before": {
			yesterday: forwardRoute, today: remapped, want: replay.VerdictOtherBody,
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
			yesterday: forwardRoute, today: mapped, event: func(r *replay.RecordedEvent) { r.Effects[0].UnknownSince = r.Event.ReceivedAt },
			want: replay.VerdictOtherBody, says: []string{"may have happened with the earlier body"},
		},
		"another body, after a mapping that failed": {
			yesterday: `      - { name: a, types: ["invoice.*"], target: billing, map: body.data.gone.total }
`, today: mapped,
			event: func(r *replay.RecordedEvent) { r.Effects[0].Reason = reasons.Mapping },
			want:  replay.VerdictOtherBody, says: []string{"no request was made before", `"from":"rendered"`}, without: []string{`"changes":`, "a@example.com"},
		},
		"another body, after a key that failed": {
			yesterday: `      - { name: a, types: ["invoice.*"], target: billing, assume_idempotent: true, key: [body.data.gone.id] }
`, today: `      - { name: a, types: ["invoice.*"], target: billing, assume_idempotent: true, key: [body.data.object.id] }
`,
			event: func(r *replay.RecordedEvent) { r.Effects[0].Reason = reasons.Mapping },
			want:  replay.VerdictOtherBody, says: []string{"no request was made before", `"from":"received"`},
		},
		"another key, by the recipe": {
			yesterday: `      - { name: a, types: ["invoice.*"], target: billing, assume_idempotent: true, key: [body.data.object.id] }
`, today: `      - { name: a, types: ["invoice.*"], target: billing, assume_idempotent: true, key: [body.data.object.total] }
`,
			event: func(r *replay.RecordedEvent) { r.Effects[0].KeyHash = []byte(strings.Repeat("k", 32)) },
			want:  replay.VerdictOtherKey, says: []string{"another key", `"key_hash":"` + strings.Repeat("6b", 32) + `"`},
		},
		"another key, since the target has forgotten it": {
			yesterday: forwardRoute, event: func(r *replay.RecordedEvent) { r.Effects[0].UnknownSince = r.Event.ReceivedAt },
			now: time.Unix(1700000000+3600, 0), want: replay.VerdictOtherKey, says: []string{"key_window"}, without: []string{`"today"`},
		},
		"forgotten, and asked for all the same": {
			yesterday: forwardRoute, event: func(r *replay.RecordedEvent) {
				r.ForgetUnknown, r.Effects[0].State, r.Effects[0].UnknownSince = true, inbox.EffectIndeterminate, r.Event.ReceivedAt
			},
			now: time.Unix(1700000000+3600, 0), want: replay.VerdictSame,
		},
		"cannot render: what is stored is sealed under a lost key": {
			yesterday: mapped, event: func(r *replay.RecordedEvent) { r.Effects[0].Lost, r.Effects[0].MissingKey = true, 3 },
			want: replay.VerdictCannotRender, says: []string{"sealed with key 3, which is not in this keyring"}, without: []string{`"body"`},
		},
		"passed: a newer version was applied": {
			yesterday: ordered("latest"), event: sequenced("7", "8"), want: replay.VerdictDone, says: []string{"a newer version, 8, was applied"}, without: []string{"sequence_"},
		},
		"not passed: the same version": {yesterday: ordered("latest"), event: sequenced("7", "7"), want: replay.VerdictSame},
		"passed: late ones are dropped": {
			yesterday: ordered("contiguous"), event: sequenced("7", "7"), want: replay.VerdictDone, says: []string{"has passed it, at 7: late ones are dropped"},
		},
		"not passed: it blocks": {yesterday: ordered("contiguous"), event: sequenced("7", "6"), want: replay.VerdictSame},
		"another place in the sequence": {
			yesterday: ordered("latest"), event: sequenced("9", ""), want: replay.VerdictSame,
			says: []string{`{"path":"sequence_number","before":"9","after":"7"}`}, without: []string{"sequence_key"},
		},
		"the key is still known": {
			yesterday: forwardRoute, event: func(r *replay.RecordedEvent) { r.Effects[0].UnknownSince = r.Event.ReceivedAt },
			now: time.Unix(1700000000+3599, 0), want: replay.VerdictSame,
		},
		"no such route":    {yesterday: forwardRoute, today: strings.ReplaceAll(forwardRoute, "name: a", "name: b"), want: replay.VerdictNoRoute, says: []string{"the route is not in the configuration"}},
		"no longer taken":  {yesterday: forwardRoute, today: strings.ReplaceAll(forwardRoute, "invoice.*", "charge.*"), want: replay.VerdictNoRoute, says: []string{"no longer takes the type"}},
		"condition, false": {yesterday: forwardRoute, today: strings.ReplaceAll(forwardRoute, "target:", "when: body.data.object.total > 100, target:"), want: replay.VerdictNoRoute, says: []string{"its condition is false"}},
		"condition, false for what may have happened": {
			yesterday: forwardRoute, today: strings.ReplaceAll(forwardRoute, "target:", "when: body.data.object.total > 100, target:"),
			event: func(r *replay.RecordedEvent) { r.Effects[0].UnknownSince = r.Event.ReceivedAt }, want: replay.VerdictOtherKey,
			says: []string{"when: body.data.object.total > 100: it becomes indeterminate, nothing is sent"},
		},
		"cannot render: the body is gone": {
			yesterday: forwardRoute, event: func(r *replay.RecordedEvent) { r.Delivery, r.Event.Body, r.Event.BodyGone = nil, nil, true },
			want: replay.VerdictCannotRender, says: []string{"the body is gone"},
		},
		"cannot render: the mapping fails": {
			yesterday: forwardRoute, today: strings.ReplaceAll(forwardRoute, "target:", "map: body.data.gone.total, target:"),
			want: replay.VerdictCannotRender, says: []string{"mapping_failed: map: body.data.gone.total"}, without: []string{"a@example.com"},
		},
		"mail, to somebody else": {
			yesterday: mailed, event: func(r *replay.RecordedEvent) {
				r.NewKey = true
				stored("From: <shop@example.com>\r\nTo: <b@example.com>\r\nSubject: Paid 12\r\n\r\nhello")(r)
			},
			want: replay.VerdictOtherKey, says: []string{`{"path":"To","before":"<b@example.com>","after":"<a@example.com>"}`}, without: []string{`"path":"Subject"`},
		},
		"another identity": {
			yesterday: forwardRoute, event: func(r *replay.RecordedEvent) { r.Event.EventID, r.Event.Type = "evt_0", "invoice.void" },
			want: replay.VerdictSame, says: []string{`{"path":"event_id","before":"evt_0","after":"evt_1"}`, `{"path":"type","before":"invoice.void","after":"invoice.paid"}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			judge, event := judgeOf(t, &c)
			for _, line := range disagreements(t, judge, event(), &c) {
				t.Error(line)
			}
			for name, overlook := range wrongJudges {
				r := event()
				overlook(r)
				if len(disagreements(t, judge, r, &c)) > 0 {
					noticed.Store(name, true)
				}
			}
		})
	}
	// The suite has to see what a judge overlooks.
	t.Cleanup(func() {
		for name := range wrongJudges {
			if _, ok := noticed.Load(name); !ok {
				t.Errorf("not noticed: a judge that overlooks %s", name)
			}
		}
	})
}

// wrongJudges overlook something that is recorded.
var wrongJudges = map[string]func(r *replay.RecordedEvent){
	"the bytes that are stored":          func(r *replay.RecordedEvent) { r.Effects[0].Rendered = nil },
	"what may have happened":             func(r *replay.RecordedEvent) { r.Effects[0].UnknownSince = time.Time{} },
	"that it was asked for all the same": func(r *replay.RecordedEvent) { r.ForgetUnknown = false },
	"how far the sequence has come":      func(r *replay.RecordedEvent) { r.Effects[0].Applied = "" },
	"where it stood in the sequence":     func(r *replay.RecordedEvent) { r.Effects[0].SequenceNumber = "7" },
	"that the discarded are asked for":   func(r *replay.RecordedEvent) { r.Includes = nil },
	"that a key is lost":                 func(r *replay.RecordedEvent) { r.Effects[0].Lost = false },
	"that new keys are asked for":        func(r *replay.RecordedEvent) { r.NewKey = false },
	"where an effect stands":             func(r *replay.RecordedEvent) { r.Effects[0].State = inbox.EffectDead },
	"what the route was":                 func(r *replay.RecordedEvent) { r.Effects[0].RouteVersion = 2 },
	"the key that was asked for":         func(r *replay.RecordedEvent) { r.Effects[0].KeyHash = nil },
	"why nothing was made":               func(r *replay.RecordedEvent) { r.Effects[0].Reason = reasons.Exhausted },
	"the headers of the delivery":        func(r *replay.RecordedEvent) { r.Event.Headers = nil },
	"the delivery itself":                func(r *replay.RecordedEvent) { r.Delivery = nil },
	"that the body is gone":              func(r *replay.RecordedEvent) { r.Event.BodyGone, r.Event.Body = false, []byte("{}") },
	"the type that was recorded":         func(r *replay.RecordedEvent) { r.Event.Type = "charge.paid" },
	"the event id that was recorded":     func(r *replay.RecordedEvent) { r.Event.EventID = "evt_1" },
}

// disagreements says in what a judgement is not what the case wants.
func disagreements(t *testing.T, judge *app.Judge, r *replay.RecordedEvent, c *verdictCase) (out []string) {
	t.Helper()
	judgements, err := judge.Judge(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if len(judgements) == 0 || judgements[0].Verdict != c.want {
		return []string{fmt.Sprintf("%+v, want %s", judgements, c.want)}
	}
	diff := string(judgements[0].Diff)
	for _, text := range c.says {
		if !strings.Contains(diff, text) {
			out = append(out, fmt.Sprintf("the diff lacks %s:\n%s", text, diff))
		}
	}
	for _, text := range append(c.without, judgedSignature[15:]) {
		if strings.Contains(diff, text) {
			out = append(out, fmt.Sprintf("the diff has %s:\n%s", text, diff))
		}
	}
	return out
}
