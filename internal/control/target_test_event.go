package control

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/pause"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// TestTargetRequest names the target to which a test event is sent.
type TestTargetRequest struct {
	Explained

	// Name is the name of a target of kind forward that has a test_url.
	Name string `json:"name"`

	// Body is the JSON that the test event carries. Without it the event carries its id, its type and the time.
	Body string `json:"body,omitempty" flag:"--body the JSON that the test event carries"`
}

// TargetTest is what a target answered to a test event.
type TargetTest struct {
	// Target is the name of the target, and Address where the test event went, without credentials.
	Target  string `json:"target"`
	Address string `json:"address"`

	// ID is the id of the test event. The request has it in Oncegate-Test and Oncegate-Event-Id. Key is its idempotency key.
	ID  string `json:"id"`
	Key string `json:"key"`

	// Signed says that the request carried signatures.
	Signed bool `json:"signed"`

	// Answers are the answers: one, or two if the target deduplicates by the key and accepted the first request.
	Answers []TargetAnswer `json:"answers"`

	// Repeat says how the target answered the same key a second time: recognised, same, different or failed. It is absent
	// if there was no second request.
	Repeat forward.Repeat `json:"repeat,omitempty"`

	// Passed says that the target accepted every request and answered the repeat no differently.
	Passed bool `json:"passed"`
}

// TargetAnswer is a target's answer to one request.
type TargetAnswer struct {
	// Outcome is what the answer would mean for an effect: done, retry, dead or unknown. Reason is why it is not done.
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`

	// Code is the HTTP status. It is absent if there was no answer, and Cause then says what failed.
	Code  string `json:"code,omitempty"`
	Cause string `json:"cause,omitempty"`

	// Excerpt is the beginning of the answer's body, at most 2 KiB.
	Excerpt string `json:"excerpt,omitempty" shows:"content"`

	// Recognised says that the target said that it knew the key.
	Recognised bool `json:"recognised,omitempty"`

	// Milliseconds is how long the request took.
	Milliseconds int64 `json:"milliseconds"`
}

// longestTest bounds one request of a test event of a target whose own timeout is longer, because an HTTP client waits for the answer.
const longestTest = 10 * time.Second

// TestTarget sends a test event to the test address of a target.
var TestTarget = Operation[TestTargetRequest, TargetTest]{
	ID: "test_target", Method: "POST", Path: "/targets/{name}/test", Scope: Operate,
	Summary: "Send a test event to the test_url of a target, signed and with its headers as an attempt is, and show the answer. If the target is idempotent, the same key is sent twice. Nothing is recorded but the audit.",
	Why:     "why is a test sent?",
	Secret:  true, // the answer quotes the target's, so it is not kept
	Do: func(ctx context.Context, s *Service, access Access, r TestTargetRequest) (out TargetTest, err error) {
		if err := access.untenanted("the targets of the configuration"); err != nil {
			return out, err
		}
		settings, err := s.settings()
		if err != nil {
			return out, err
		}
		t, err := testable(settings, r.Name)
		if err != nil {
			return out, err
		}
		cfg := t.ForwardConfig()
		if err := forward.CheckTest(&cfg, t.TestURL, []byte(r.Body)); err != nil {
			return out, invalid("%v", err)
		}
		why := or(r.Reason, "a test of the target")
		if err := inbox.CheckExplanation(access.Actor, why); err != nil {
			return out, err
		}
		err = pgx.BeginFunc(ctx, s.cfg.Pool, func(tx pgx.Tx) error {
			return inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{At: s.cfg.Now(), Actor: access.Actor, Action: AuditTestTarget, Object: "target/" + t.Name, Reason: why})
		})
		if err != nil {
			return out, err
		}
		cfg.Now, cfg.Timeout = s.cfg.Now, min(t.Timeout, longestTest)
		report, err := forward.SendTest(ctx, cfg, t.TestURL, []byte(r.Body))
		if err != nil {
			return out, invalid("%v", err)
		}
		out = TargetTest{
			Target: t.Name, Address: t.ShownTestURL(), ID: report.ID, Key: report.Key, Signed: len(cfg.Sign) > 0, Repeat: report.Repeat(), Passed: report.Passed(),
		}
		for i := range report.Answers {
			a := &report.Answers[i]
			out.Answers = append(out.Answers, TargetAnswer{
				Outcome: string(a.Outcome), Reason: a.Reason, Code: a.Code, Cause: a.Cause, Excerpt: a.Excerpt, Recognised: a.Recognised, Milliseconds: a.Elapsed.Milliseconds(),
			})
		}
		return out, nil
	},
}

// AuditTestTarget records that a test event was sent to a target. Stored: never change.
const AuditTestTarget inbox.AuditAction = "target.test"

// testable returns a target that has a test address.
func testable(settings *config.Config, name string) (*config.Target, error) {
	at := slices.IndexFunc(settings.Targets, func(t *config.Target) bool { return t.Name == name })
	if at < 0 {
		names := mapped(settings.Targets, func(t *config.Target) string { return t.Name })
		return nil, &Problem{Code: CodeNotFound, Detail: fmt.Sprintf("the configuration has no target %q; %s", name, existing(pause.Target, names))}
	}
	t := settings.Targets[at]
	switch {
	case t.Kind != config.KindForward:
		return nil, invalid("target %s is of kind %s: only a target of kind forward can be sent a test event", name, t.Kind)
	case t.TestURL == "":
		return nil, invalid("target %s has no test_url: set targets.%s.test_url to an address at which an event causes no work", name, name)
	}
	return t, nil
}
