package jobs_test

import (
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/jobs"
)

// A route whose provider wraps its events evaluates conditions, mappings and the parameters of kinds
// on the document in the body. The call still carries the body as received.
func TestExpressionsReadTheDocument(t *testing.T) {
	t.Parallel()
	compile := func(text string, want expression.Want) *expression.Program {
		p, err := expression.Compile(text, want)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	claim := &inbox.Claim{Event: inbox.ClaimedEvent{Body: []byte("token")}}
	route := &jobs.Route{When: compile(`body.type == "user.updated"`, expression.Condition), Document: func(body []byte) []byte {
		if string(body) != "token" {
			t.Errorf("decodes %q", body)
		}
		return []byte(`{"type":"user.updated"}`)
	}}
	if ok, err := jobs.Wants(route, claim); !ok || err != nil {
		t.Errorf("the condition is %v, %v", ok, err)
	}
	call := jobs.Call(route, claim)
	if text, err := compile("body.type", expression.Value).Value(jobs.Input(call)); text != "user.updated" || err != nil {
		t.Errorf("a kind reads %v, %v", text, err)
	}
	payload, _ := call.Payload().(map[string]any)
	if payload["type"] != "user.updated" || string(call.Event.Body) != "token" {
		t.Errorf("templates read %v, and the body is %q", payload, call.Event.Body)
	}
	plain := &jobs.Route{When: route.When}
	claim.Event.Body = []byte(`{"type":"user.updated"}`)
	if ok, err := jobs.Wants(plain, claim); !ok || err != nil {
		t.Errorf("without a document the condition is %v, %v", ok, err)
	}
	if call := jobs.Call(plain, claim); call.Event.Document != nil {
		t.Errorf("a body that is its own document has another: %s", call.Event.Document)
	}
}
