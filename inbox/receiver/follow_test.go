package receiver_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/inbox/receiver"
)

// line is an earlier call, and perhaps one that follows it.
type line struct {
	*outcomes
	call     operation.FollowedCall
	document string // of the earlier call; empty while it is in flight
	follower string // document of the one that follows it
}

func (l *line) FollowedCall(_ context.Context, f *inbox.Follow) (*operation.FollowedCall, error) {
	out := l.call
	out.Event = f.Parent
	return &out, nil
}

func (l *line) Await(_ context.Context, event inbox.ID, _ time.Duration) ([]byte, bool, error) {
	document := l.document
	if event == l.call.Follower {
		document = l.follower
	}
	return []byte(document), document != "", nil
}

// installation is the secret under which the receiver takes hashes for stored. Hashes without a key are of before.
var installation = inbox.InstallationSecret{Value: make([]byte, sha256.Size)}

// chargeIntent is the intent hash of operate's payload.
func chargeIntent(t *testing.T) []byte {
	t.Helper()
	sum := sha256.Sum256([]byte(`{"n":1}`))
	return sum[:]
}

// A call follows an earlier one only where nothing can then happen twice. Each refusal shows the state of the other call and what
// can be done now, and spends no key.
func TestACallThatFollowsAnother(t *testing.T) {
	t.Parallel()
	const resumes, insteadOf = receiver.HeaderResumes, receiver.HeaderInsteadOf
	const failed, partial, done, unknown = `{"status":"failed","next":"resume"}`, `{"status":"partial","next":"resume"}`, `{"status":"done","next":"use_result"}`, `{"status":"indeterminate","next":"ask_operator"}`
	follower := inbox.NewID(now)
	for name, c := range map[string]struct {
		header   []string
		document string
		change   func(*operation.FollowedCall)
		follower string
		foreign  bool // the follower is not the credential's
		recorded bool // the call's own key is known

		code, next, state string
		shown             bool // the result
	}{
		"resumes failed":             {header: []string{resumes, "k0"}, document: failed},
		"resumes partial":            {header: []string{resumes, `"k0"`}, document: partial},
		"resumes done":               {header: []string{resumes, recordedID}, document: done},
		"in place of failed":         {header: []string{insteadOf, "k0"}, document: failed},
		"in place of another intent": {header: []string{insteadOf, "k0"}, document: done, change: func(f *operation.FollowedCall) { f.Intent, f.Operation = []byte("other"), "refund" }},

		"resumes, hash has a key": {header: []string{resumes, "k0"}, document: failed, change: func(f *operation.FollowedCall) { f.Intent = installation.StoredHash(f.Intent) }},
		"another, hash has a key": {header: []string{resumes, "k0"}, document: failed, change: func(f *operation.FollowedCall) { f.Intent = installation.StoredHash([]byte("other")) }, code: "resume_differs", next: "replace", state: "failed", shown: true},

		"in flight":                  {header: []string{resumes, "k0"}, code: "parent_unsettled", next: "wait", state: "in_flight"},
		"in flight, replaced":        {header: []string{insteadOf, "k0"}, code: "parent_unsettled", next: "wait", state: "in_flight"},
		"nobody knows":               {header: []string{resumes, "k0"}, document: unknown, code: "parent_unsettled", next: "ask_operator", state: "indeterminate", shown: true},
		"nobody knows, replaced":     {header: []string{insteadOf, "k0"}, document: unknown, code: "parent_unsettled", next: "ask_operator", state: "indeterminate", shown: true},
		"another payload":            {header: []string{resumes, "k0"}, document: failed, change: func(f *operation.FollowedCall) { f.Intent = []byte("other") }, code: "resume_differs", next: "replace", state: "failed", shown: true},
		"another payload, in flight": {header: []string{resumes, "k0"}, change: func(f *operation.FollowedCall) { f.Intent = []byte("other") }, code: "resume_differs", next: "wait", state: "in_flight"},
		"another operation":          {header: []string{resumes, "k0"}, document: failed, change: func(f *operation.FollowedCall) { f.Operation = "refund" }, code: "resume_differs", next: "replace", state: "failed", shown: true},
		"pruned":                     {header: []string{resumes, "k0"}, document: partial, change: func(f *operation.FollowedCall) { f.EffectsKept = false }, code: "parent_pruned", next: "ask_operator", state: "partial", shown: true},
		"pruned, replaced":           {header: []string{insteadOf, "k0"}, document: partial, change: func(f *operation.FollowedCall) { f.EffectsKept = false }},
		"followed":                   {header: []string{resumes, "k0"}, document: failed, change: func(f *operation.FollowedCall) { f.Follower = follower }, follower: done, code: "already_followed", next: "use_result", state: "done", shown: true},
		"followed, in flight":        {header: []string{insteadOf, "k0"}, document: failed, change: func(f *operation.FollowedCall) { f.Follower = follower }, code: "already_followed", next: "wait", state: "in_flight"},
		"followed by another run":    {header: []string{resumes, "k0"}, document: failed, change: func(f *operation.FollowedCall) { f.Follower = follower }, follower: done, foreign: true, code: "already_followed", next: "ask_operator"},
		"unknown":                    {header: []string{resumes, "k9"}, document: failed, code: "unknown_parent", next: "correct"},
		"the old header":             {header: []string{"Oncegate-Parent", "k0"}, document: failed, code: "follow_header", next: "correct"},
		"both headers":               {header: []string{resumes, "k0", insteadOf, "k0"}, document: failed, code: "follow_header", next: "correct"},
		"its key is recorded":        {header: []string{resumes, "k0"}, recorded: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys := map[string]inbox.ID{"9/agent/agent:charge:k0": recorded, "9/agent/" + recordedID: recorded}
			if c.recorded {
				keys["9/agent:charge:k1"] = recorded
			}
			if !c.foreign {
				keys["9/agent/"+follower.String()] = follower
			}
			l := &line{outcomes: &outcomes{keys: keys}, document: c.document, follower: c.follower,
				call: operation.FollowedCall{Event: recorded, Key: "agent:charge:k0", Operation: "charge", Intent: chargeIntent(t), EffectsKept: true}}
			if c.change != nil {
				c.change(&l.call)
			}
			g := answering(inbox.Recorded)
			w := operate(t, operations(t, g, l, charging(t, receiver.Operation{})), c.header...)
			admissions := g.admissions()
			if (len(admissions) == 1) != (c.code == "") {
				t.Fatalf("%d %s, %d admissions", w.Code, w.Body, len(admissions))
			}
			if c.code == "" {
				if f := admissions[0].Events[0].Follows; w.Code != http.StatusAccepted || !c.recorded && (f == nil || f.Parent != recorded || f.ParentKey != "agent:charge:k0") {
					t.Errorf("%d %s follows %+v", w.Code, w.Body, f)
				}
				return
			}
			p := problemOf(t, w)
			var more struct{ Result json.RawMessage }
			if err := json.Unmarshal(w.Body.Bytes(), &more); err != nil {
				t.Fatal(err)
			}
			if p.Code != c.code || p.Next != c.next || p.State != c.state || (more.Result != nil) != c.shown {
				t.Errorf("%s, want %s, next %s, state %q, a result: %t", w.Body, c.code, c.next, c.state, c.shown)
			}
			if c.state != "" && w.Header().Get("Location") != "/in/agents/"+p.Event {
				t.Errorf("%v does not lead to %s", w.Header(), p.Event)
			}
			if !strings.Contains(p.Detail, "Oncegate-") && !strings.Contains(p.Detail, "leave the header out") {
				t.Errorf("%q does not say which header to correct", p.Detail)
			}
			if c.code == "follow_header" && (!strings.Contains(p.Detail, resumes) || !strings.Contains(p.Detail, insteadOf)) {
				t.Errorf("%q names no header that is right", p.Detail)
			}
		})
	}
}

// The gate decides about calls that come at once. Its refusal is answered like one that is found before.
func TestTheGateRefusesForAnotherCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		header []string
		code   string
	}{
		"it was suspected": {err: inbox.ErrSuspectedRepeat, code: "suspected_repeat"},
		"it cannot follow": {err: inbox.ErrNotFollowed, header: []string{receiver.HeaderResumes, "k0"}, code: "parent_unsettled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &line{outcomes: &outcomes{keys: map[string]inbox.ID{"9/agent/agent:charge:k0": recorded, "9/agent/" + recordedID: recorded}}, document: `{"status":"failed","next":"resume"}`,
				call: operation.FollowedCall{Event: recorded, Key: "agent:charge:k0", Operation: "charge", Intent: chargeIntent(t), EffectsKept: true}}
			g := failing(c.err)
			h := operations(t, g, l, func(s *receiver.Source) {
				charging(t, receiver.Operation{})(s)
				s.Repeats = receiver.Repeats{Within: time.Minute, Refuse: true}
			})
			if p := problemOf(t, operate(t, h, c.header...)); p.Code != c.code || p.Next == "" {
				t.Errorf("%+v, want %s", p, c.code)
			}
		})
	}
}
