package night

import (
	"fmt"
	"slices"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
)

// Effect is an effect as the database has it.
type Effect struct {
	Source, EventID, Route, State, Key string
	Version                            int

	// Unknown says that an attempt may have happened.
	Unknown bool
}

// Evidence is what the targets recorded in the night, and what the database says at the end.
type Evidence struct {
	Events   []Event
	Plans    []Plan
	After    map[string]Effect
	Requests []Request
	Done     map[string]int // by key: what the targets did
	Applied  []string       // keys of what was done in the database
	Address  map[string]string

	// ChangedByPlan has the tables that planning changed, and SentByPlan counts the requests that were sent
	// meanwhile.
	ChangedByPlan []string
	SentByPlan    int
}

// ExpectedVerdict is the verdict that a plan must give an event's effect at billing, worked out by hand. The route of
// stripe in configurationAfter takes an event by its type and total. What may have happened before the condition was added, and
// does not meet it, is not sent and stays unknown.
func ExpectedVerdict(e *Event, unknown bool) replay.Verdict {
	switch {
	case e.Source == "github":
		return replay.VerdictSame // what was rendered before is sent again
	case e.Source == "standard" && unknown:
		return replay.VerdictOtherKey // what may have happened at one target is not sent to another
	case e.Source == "standard":
		return replay.VerdictOtherTarget
	case e.Type == "invoice.voided":
		return replay.VerdictNoRoute
	case e.Total == 0 && unknown:
		return replay.VerdictOtherKey
	case e.Total == 0:
		return replay.VerdictNoRoute
	}
	return replay.VerdictOtherBody
}

// Check compares the ledgers and returns what does not agree, one line each.
func Check(v *Evidence) []string {
	c := &checker{Evidence: v, requests: map[string][]placed{}, unknown: map[string]bool{}}
	for _, e := range v.Plans[0].Before {
		if e.Route == "billing" {
			c.unknown[e.Source+"/"+e.EventID] = e.Unknown
		}
	}
	for i, r := range v.Requests {
		c.requests[r.Key] = append(c.requests[r.Key], placed{r, i})
	}
	c.checkPlanning()
	c.checkVerdicts()
	for i := range v.Plans {
		c.checkOutcomes(&v.Plans[i], i == len(v.Plans)-1)
	}
	c.checkLedgers()
	return c.findings
}

type placed struct {
	Request
	place int
}

type checker struct {
	*Evidence
	requests map[string][]placed // by key
	unknown  map[string]bool     // by event: billing may have received it
	findings []string
}

func (c *checker) failf(format string, args ...any) {
	c.findings = append(c.findings, fmt.Sprintf(format, args...))
}

// checkPlanning: a plan writes only itself and its audit entry, and sends nothing.
func (c *checker) checkPlanning() {
	for _, table := range c.ChangedByPlan {
		if !slices.Contains([]string{"replay", "replay_item", "audit"}, table) {
			c.failf("planning changed table %s", table)
		}
	}
	if c.SentByPlan > 0 {
		c.failf("planning sent %d requests", c.SentByPlan)
	}
}

// checkVerdicts: the first plan has an item for each effect that failed, with the expected verdict.
func (c *checker) checkVerdicts() {
	planned := map[string]replay.Verdict{}
	for _, it := range c.Plans[0].Items {
		planned[it.Source+"/"+it.EventID+"/"+it.Route] = it.Verdict
	}
	failed := 0
	for i := range c.Events {
		e := &c.Events[i]
		got, ok := planned[e.Source+"/"+e.ID+"/billing"]
		unknown := c.unknown[e.Source+"/"+e.ID]
		if e.Mode != Up && e.Mode != Unavailable && !unknown {
			c.failf("%s/%s may have happened, and is taken for what has not", e.Source, e.ID)
		}
		switch {
		case e.Mode == Up && ok:
			c.failf("%s/%s had happened and is in the plan", e.Source, e.ID)
		case e.Mode != Up && !ok:
			c.failf("%s/%s failed and is not in the plan", e.Source, e.ID)
		case e.Mode != Up && got != ExpectedVerdict(e, unknown):
			c.failf("%s/%s: the plan says %s, want %s", e.Source, e.ID, got, ExpectedVerdict(e, unknown))
		}
		if e.Mode != Up {
			failed++
		}
	}
	if len(planned) != failed {
		c.failf("the plan has %d items for %d failed effects", len(planned), failed)
	}
}

// checkOutcomes: each item of a plan ended as the plan said.
func (c *checker) checkOutcomes(p *Plan, last bool) {
	for i := range p.Items {
		it := &p.Items[i]
		name := it.Source + "/" + it.EventID + "/" + it.Route
		if it.Effect == nil {
			c.failf("%s: the plan makes an effect; nothing asked for one", name)
			continue
		}
		before, known := p.Before[it.Effect.String()]
		if !known {
			c.failf("%s: the plan names an effect that was not there", name)
			continue
		}
		sent := c.requestsBetween(before.Key, p.FirstRequest, p.LastRequest)
		switch it.Outcome {
		case replay.ItemReplayed:
			c.checkRequest(name, it, &before, sent)
		case replay.ItemLeftOut, "":
			if it.Outcome == "" && last {
				c.failf("%s: the last run did not come to it", name)
			}
			if len(sent) > 0 {
				c.failf("%s was left as it was, and %d requests went out", name, len(sent))
			}
			if after := c.After[it.Effect.String()]; it.Outcome == replay.ItemLeftOut && after != before {
				c.failf("%s was left out, and changed from %+v to %+v", name, before, after)
			}
		default:
			c.failf("%s: outcome %s", name, it.Outcome)
		}
		c.checkUntouched(p, it, name, &before)
	}
}

// checkUntouched: the items that a cancelled run did not reach are in the next plan, unchanged.
func (c *checker) checkUntouched(p *Plan, it *replay.Item, name string, before *Effect) {
	if it.Outcome != "" || p == &c.Plans[len(c.Plans)-1] {
		return
	}
	next := &c.Plans[slices.IndexFunc(c.Plans, func(q Plan) bool { return q.Replay.ID == p.Replay.ID })+1]
	if now := next.Before[it.Effect.String()]; now != *before {
		c.failf("%s was not acted on, and changed from %+v to %+v", name, *before, now)
	}
}

// checkRequest: the request is what the plan said, and the effect is done.
func (c *checker) checkRequest(name string, it *replay.Item, before *Effect, sent []placed) {
	diff, err := replay.ReadDiff(it.Diff)
	if err != nil || diff.Recorded == nil || diff.Verdict != it.Verdict {
		c.failf("%s: its diff cannot be read (%v) or is of another verdict", name, err)
		return
	}
	if it.Verdict == replay.VerdictOtherKey {
		c.checkUnchanged(name, it, before, sent)
		return
	}
	said := diff.Recorded
	if diff.Today != nil {
		said = diff.Today
	}
	if (it.Verdict == replay.VerdictSame) != (diff.Today == nil) {
		c.failf("%s: verdict %s, and today's request is told: %v", name, it.Verdict, diff.Today != nil)
	}
	if len(sent) == 0 {
		c.failf("%s was replayed, and no request went out", name)
	}
	for _, r := range sent {
		switch {
		case said.Body == nil || r.Body != said.Body.SHA256:
			c.failf("%s: another body went out than the plan said", name)
		case r.Key != said.Key:
			c.failf("%s: another key went out than the plan said", name)
		case r.Path != c.Address[said.Target]:
			c.failf("%s: it went to %s, and the plan said %s", name, r.Path, said.Target)
		}
	}
	if after := c.After[it.Effect.String()]; after.State != string(inbox.EffectDone) || after.Version != before.Version+1 {
		c.failf("%s was replayed and is %s, version %d after %d", name, after.State, after.Version, before.Version)
	}
}

// checkUnchanged: what may have happened under the former configuration is not sent, and waits for a person.
func (c *checker) checkUnchanged(name string, it *replay.Item, before *Effect, sent []placed) {
	if len(sent) > 0 {
		c.failf("%s may have happened under the former configuration, and %d requests went out", name, len(sent))
	}
	if after := c.After[it.Effect.String()]; after.State != string(inbox.EffectIndeterminate) || after.Version != before.Version+1 {
		c.failf("%s may have happened under the former configuration and is %s, version %d after %d", name, after.State, after.Version, before.Version)
	}
}

// requestsBetween returns the requests with a key that arrived while a plan ran.
func (c *checker) requestsBetween(key string, from, to int) []placed {
	all := c.requests[key]
	return slices.DeleteFunc(slices.Clone(all), func(r placed) bool { return r.place < from || r.place >= to })
}

// checkLedgers: every effect that is done happened exactly once, and nothing else happened.
func (c *checker) checkLedgers() {
	wanted, kept := map[string]bool{}, map[string]bool{}
	for i := range c.Events {
		e := &c.Events[i]
		name := e.Source + "/" + e.ID
		verdict := ExpectedVerdict(e, c.unknown[name])
		wanted[name] = e.Mode == Up || verdict != replay.VerdictNoRoute
		kept[name] = e.Mode != Up && verdict == replay.VerdictOtherKey
	}
	applied := map[string]int{}
	for _, key := range c.Applied {
		applied[key]++
	}
	done := map[string]bool{}
	for id, e := range c.After {
		name := e.Source + "/" + e.EventID
		times := c.Done[e.Key]
		if e.Route == "table" {
			times = applied[e.Key]
		}
		switch should := e.Route != "billing" || wanted[name]; {
		case e.Route == "billing" && kept[name]:
			if e.State != string(inbox.EffectIndeterminate) || times > 1 {
				c.failf("effect %s of %s may have happened under the former configuration, is %s and happened %d times", id, name, e.State, times)
			}
		case should && (e.State != string(inbox.EffectDone) || times != 1):
			c.failf("effect %s of %s is %s and happened %d times", id, name, e.State, times)
		case !should && e.State != string(inbox.EffectDead):
			c.failf("effect %s of %s has no route and is %s", id, name, e.State)
		}
		done[e.Key] = true
	}
	for key := range c.Done {
		if !done[key] {
			c.failf("a target did something under key %s, which no effect has", key)
		}
	}
	if len(done) != len(c.After) {
		c.failf("%d effects have %d keys", len(c.After), len(done))
	}
	if len(wanted) != len(c.Events) {
		c.failf("%d events are %d", len(c.Events), len(wanted))
	}
}
