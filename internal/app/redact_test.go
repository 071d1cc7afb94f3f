package app_test

import (
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/replay"
)

// What is masked by its name, and what by the configuration: names anywhere,
// paths with * for one step. The values never reach the diff, at any depth.
func TestMaskedMembers(t *testing.T) {
	t.Parallel()
	judge, event := judgeOf(t, &verdictCase{yesterday: forwardRoute, today: `      - { name: a, types: ["invoice.*"], target: billing, map: { one: 1 } }
`})
	r := event()
	members := []string{
		`"password":"s3cret"`, `"X-Api-Key":"s3cret"`, `"accessToken":{"value":"s3cret"}`, `"client_secret":["s3cret"]`, `"cvc":"s3cret"`, `"iban":"s3cret"`,
		`"nickname":"s3cret"`, `"deep":{"list":[{"nickname":"s3cret"}]}`, `"data":{"object":{"email":"s3cret"}}`, `"Set-Cookie":"s3cret"`,
		`"a.password":"s3cret"`, `"plain":"shown"`, `"email":"shown too"`,
	}
	r.Event.Body = []byte("{" + strings.Join(members, ",") + "}")
	r.Delivery, r.Length = r.Event.Body, len(r.Event.Body)
	judgements, err := judge.Judge(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	diff := string(judgements[0].Diff)
	if judgements[0].Verdict != replay.VerdictOtherBody || strings.Contains(diff, "s3cret") {
		t.Errorf("a value that is to be masked is in it: %s", diff)
	}
	for _, text := range []string{"shown", "shown too", "<redacted>"} {
		if !strings.Contains(diff, text) {
			t.Errorf("%q is not in it: %s", text, diff)
		}
	}
}
