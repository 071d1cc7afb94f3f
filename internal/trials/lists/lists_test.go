package lists_test

import (
	"flag"
	"maps"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
	"github.com/oncegate/oncegate/internal/trials/lists"
)

var recipients = flag.Int("recipients", 600, "recipients of each list")

func TestLists(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.EmptySchema(t)
	evidence, err := lists.Run(lab.TestContext(t), lists.Options{
		Recipients: *recipients, URL: url, Schema: schema, Dir: t.TempDir(), Progress: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range rig.List(lists.Check(evidence)) {
		t.Error(line)
	}
	if t.Failed() {
		return
	}
	// A checker that has never been seen to fail proves nothing.
	first := lists.Message{ID: "<another@sink.example>", Recipient: evidence.Recipients[0]}
	for name, damage := range map[string]func(v *lists.Evidence){
		"a second message":           func(v *lists.Evidence) { v.Killed = with(v.Killed, first, 2) },
		"a message under another id": func(v *lists.Evidence) { v.Undisturbed = with(v.Undisturbed, first, 1) },
		"a message to a recipient of before": func(v *lists.Evidence) {
			v.Repeated = with(v.Repeated, first, 1)
		},
		"nobody is mailed":                func(v *lists.Evidence) { v.Undisturbed = nil },
		"too many are left out at a kill": func(v *lists.Evidence) { v.Killed = nil },
		"the added one is left out":       func(v *lists.Evidence) { v.Repeated = nil },
		"a stranger":                      func(v *lists.Evidence) { v.Killed = with(v.Killed, lists.Message{Recipient: "x@example.com"}, 1) },
	} {
		damaged := *evidence
		damage(&damaged)
		if len(lists.Check(&damaged)) == 0 {
			t.Errorf("%s: not noticed", name)
		}
	}
}

func with(taken map[lists.Message]int, m lists.Message, n int) map[lists.Message]int {
	taken = maps.Clone(taken)
	if taken == nil {
		taken = map[lists.Message]int{}
	}
	taken[m] = n
	return taken
}
