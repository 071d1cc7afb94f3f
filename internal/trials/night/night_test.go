package night_test

import (
	"flag"
	"maps"
	"slices"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
	"github.com/oncegate/oncegate/internal/trials/night"
)

var deliveries = flag.Int("deliveries", 300, "events that are delivered in the night")

func TestNight(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.EmptySchema(t)
	evidence, err := night.Run(lab.TestContext(t), night.Options{
		Deliveries: *deliveries, URL: url, Schema: schema, Dir: t.TempDir(), Progress: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range evidence.Plans {
		verdicts, outcomes := map[replay.Verdict]int{}, map[replay.ItemOutcome]int{}
		for _, it := range p.Items {
			verdicts[it.Verdict]++
			outcomes[it.Outcome]++
		}
		t.Logf("plan %d: verdicts %v, outcomes %v", i+1, verdicts, outcomes)
		if outcomes[replay.ItemReplayed] == 0 || i == 0 && outcomes[""] == 0 {
			t.Error("too little happened to prove anything")
		}
	}
	for _, line := range rig.List(night.Check(evidence)) {
		t.Error(line)
	}
	if t.Failed() {
		return
	}
	// A checker that has never been seen to fail proves nothing.
	for name, damage := range wrong {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if len(night.Check(damaged(evidence, damage))) == 0 {
				t.Error("not noticed")
			}
		})
	}
}

// damaged is a copy of the evidence to which something was done.
func damaged(v *night.Evidence, damage func(v *night.Evidence)) *night.Evidence {
	w := *v
	w.Requests, w.Done, w.After, w.Applied = slices.Clone(v.Requests), maps.Clone(v.Done), maps.Clone(v.After), slices.Clone(v.Applied)
	w.Plans = slices.Clone(v.Plans)
	for i := range w.Plans {
		w.Plans[i].Items = slices.Clone(v.Plans[i].Items)
	}
	damage(&w)
	return &w
}

// replayed finds a replayed item with a verdict: in which plan, and where there.
func replayed(v *night.Evidence, verdict replay.Verdict) (plan, item int) {
	for plan := range v.Plans {
		item := slices.IndexFunc(v.Plans[plan].Items, func(it replay.Item) bool {
			return it.Outcome == replay.ItemReplayed && it.Verdict == verdict
		})
		if item >= 0 {
			return plan, item
		}
	}
	panic("no replayed item has verdict " + string(verdict))
}

// request is the place of the request that a replayed item led to.
func request(v *night.Evidence, verdict replay.Verdict) int {
	plan, item := replayed(v, verdict)
	from := v.Plans[plan].FirstRequest
	key := v.After[v.Plans[plan].Items[item].Effect.String()].Key
	return from + slices.IndexFunc(v.Requests[from:], func(r night.Request) bool { return r.Key == key })
}

// What a replay that does not do as its plan says would leave behind.
var wrong = map[string]func(v *night.Evidence){
	"the body of today where the stored one was told": func(v *night.Evidence) { v.Requests[request(v, replay.VerdictSame)].Body = "0" },
	"the old body where another was told":             func(v *night.Evidence) { v.Requests[request(v, replay.VerdictOtherBody)].Body = "0" },
	"the old address":                                 func(v *night.Evidence) { v.Requests[request(v, replay.VerdictOtherTarget)].Path = "/billing/hooks" },
	"a new key":                                       func(v *night.Evidence) { v.Requests[request(v, replay.VerdictSame)].Key += "~v2" },
	"a second effect":                                 func(v *night.Evidence) { v.Done[v.Requests[request(v, replay.VerdictSame)].Key]++ },
	"a second row":                                    func(v *night.Evidence) { v.Applied = append(v.Applied, v.Applied[0]) },
	"a lost row":                                      func(v *night.Evidence) { v.Applied = v.Applied[1:] },
	"an effect lost on the way": func(v *night.Evidence) {
		key := v.Requests[request(v, replay.VerdictSame)].Key
		delete(v.Done, key)
		v.Requests = slices.DeleteFunc(v.Requests, func(r night.Request) bool { return r.Key == key })
	},
	"a verdict that is another": func(v *night.Evidence) {
		plan, item := replayed(v, replay.VerdictOtherBody)
		v.Plans[plan].Items[item].Verdict = replay.VerdictSame
	},
	"an item that was not planned": func(v *night.Evidence) { v.Plans[0].Items = v.Plans[0].Items[1:] },
	"a plan that sends":            func(v *night.Evidence) { v.SentByPlan = 1 },
	"a plan that writes":           func(v *night.Evidence) { v.ChangedByPlan = append(slices.Clone(v.ChangedByPlan), "effect") },
	"a cancelled item that moved": func(v *night.Evidence) {
		i := slices.IndexFunc(v.Plans[0].Items, func(it replay.Item) bool { return it.Outcome == "" })
		id := v.Plans[0].Items[i].Effect.String()
		v.Plans[1].Before = maps.Clone(v.Plans[1].Before)
		e := v.Plans[1].Before[id]
		e.Version++
		v.Plans[1].Before[id] = e
	},
	"something left out that was sent": func(v *night.Evidence) {
		i := slices.IndexFunc(v.Plans[1].Items, func(it replay.Item) bool { return it.Outcome == replay.ItemLeftOut })
		e := v.After[v.Plans[1].Items[i].Effect.String()]
		v.Requests[v.Plans[1].FirstRequest].Key = e.Key
	},
}
