package main

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// at is a time so many seconds into a campaign; between is a span of them.
func at(second float64) time.Time {
	return time.Unix(1_900_000_000, 0).Add(time.Duration(second * float64(time.Second)))
}

func between(from, to float64) span { return span{at(from), at(to)} }

// call is a request of the second, answered with a status.
func call(second float64, answer int) *request {
	return &request{key: "k", attempt: "1", at: at(second), answer: answer, once: true}
}

// kindsOf are the kinds of violations.
func kindsOf(found []violation) string {
	kinds := make([]string, len(found))
	for i, v := range found {
		kinds[i] = string(v.Kind)
	}
	slices.Sort(kinds)
	return strings.Join(slices.Compact(kinds), " ")
}

// An effect that nobody carries out is noticed before the campaign ends, and one that is tried again and again is not.
func TestJudgeNoticesAStandstill(t *testing.T) {
	t.Parallel()
	h := &history{id: "1", key: "k", source: "pay", event: "evt_1", route: "receipt"}
	s := standstill{}.next(0, at(0))
	if found := s.judge(h, at(59)); found != nil {
		t.Errorf("noticed too early: %v", found)
	}
	if kind := kindsOf(s.next(0, at(61)).judge(h, at(61))); kind != unfinished {
		t.Errorf("noticed as %q, want %q", kind, unfinished)
	}
	if found := s.next(1, at(61)).judge(h, at(61)); found != nil {
		t.Errorf("an effect that was just sent stands still: %v", found)
	}
}

// What a person ended stays ended, and nothing is sent twice to a target that cannot
// deduplicate, unless a person asked for it afterwards.
func TestJudgeNoticesWhatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	plan := func(made, run float64, covers ...string) permit {
		return permit{decided: between(made, made+1), from: at(run), overrides: covers}
	}
	other := call(20, 200)
	other.body = sha256.Sum256([]byte("other"))
	for name, c := range map[string]struct {
		history history
		want    string
	}{
		"nothing but one request":                     {history{requests: []*request{call(1, 200)}}, ""},
		"sent after it was discarded":                 {history{requests: []*request{call(1, 400), call(20, 200)}, endings: []ending{{discarded, between(5, 6), "an act"}}}, overridden},
		"sent while it was being discarded":           {history{requests: []*request{call(1, 400), call(5.5, 200)}, endings: []ending{{discarded, between(5, 6), "an act"}}}, ""},
		"sent after it was erased, and asked for":     {history{requests: []*request{call(1, 400), call(20, 200)}, endings: []ending{{erased, between(5, 6), "an act"}}, permits: []permit{plan(7, 8, discarded, done, resolved, mayHaveHappened)}}, overridden},
		"sent after it was pruned":                    {history{requests: []*request{call(20, 200)}, endings: []ending{{pruned, between(5, 6), "an act"}}}, overridden},
		"resolved, and sent by an older plan":         {history{requests: []*request{call(1, 500), call(20, 200)}, endings: []ending{{resolved, between(5, 6), "an act"}}, permits: []permit{plan(2, 9, mayHaveHappened)}}, overridden},
		"discarded, and sent by an older plan":        {history{requests: []*request{call(1, 400), call(20, 200)}, endings: []ending{{discarded, between(5, 6), "an act"}}, permits: []permit{plan(2, 9, discarded)}}, overridden},
		"discarded, and sent by a plan without it":    {history{requests: []*request{call(1, 400), call(20, 200)}, endings: []ending{{discarded, between(5, 6), "an act"}}, permits: []permit{plan(7, 9, mayHaveHappened)}}, overridden},
		"discarded, and sent before the plan was run": {history{requests: []*request{call(1, 400), call(20, 200)}, endings: []ending{{discarded, between(5, 6), "an act"}}, permits: []permit{plan(7, 21, discarded)}}, overridden},
		"discarded, and sent by a plan that asks":     {history{requests: []*request{call(1, 400), call(20, 200)}, endings: []ending{{discarded, between(5, 6), "an act"}}, permits: []permit{plan(7, 9, discarded)}}, ""},
		"discarded, asked for, and discarded again":   {history{requests: []*request{call(1, 400), call(20, 200)}, endings: []ending{{discarded, between(5, 6), "an act"}, {discarded, between(10, 11), "an act"}}, permits: []permit{plan(7, 9, discarded)}}, overridden},
		"sent again after an unknown outcome":         {history{requests: []*request{call(1, 500), call(20, 200)}}, doubled},
		"sent again after a success":                  {history{requests: []*request{call(1, 200), call(20, 200)}}, doubled},
		"sent again after silence":                    {history{requests: []*request{call(1, 0), call(20, 200)}}, doubled},
		"sent again after it was refused":             {history{requests: []*request{call(1, 429), call(2, 400), call(3, 410), call(20, 200)}}, ""},
		"resent once":                                 {history{requests: []*request{call(1, 500), call(20, 200)}, permits: []permit{plan(5, 5, mayHaveHappened)}}, ""},
		"resent once and sent twice":                  {history{requests: []*request{call(1, 500), call(20, 500), call(21, 200)}, permits: []permit{plan(5, 5, mayHaveHappened)}}, doubled},
		"resent before it was sent at all":            {history{requests: []*request{call(10, 500), call(20, 200)}, permits: []permit{plan(5, 5, mayHaveHappened)}}, doubled},
		"sent by a plan without what is unknown":      {history{requests: []*request{call(1, 500), call(20, 200)}, permits: []permit{plan(5, 6, discarded)}}, doubled},
		"other bytes under one key":                   {history{requests: []*request{call(1, 400), other}}, altered},
	} {
		if got := kindsOf(judgeRequests(&c.history)); got != c.want {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}

// A target that deduplicates may hear of one effect as often as it takes.
func TestJudgeLetsATargetThatDeduplicatesHearTwice(t *testing.T) {
	t.Parallel()
	first, second := call(1, 500), call(2, 200)
	first.once, second.once = false, false
	if found := judgeRequests(&history{requests: []*request{first, second}}); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

// A number of a sequence is sent in its turn, unless somebody gave up what is before it.
func TestJudgeNoticesWhatIsOutOfOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		numbers string // in the order in which they are sent; a number with an x is refused
		passes  []span
		endings map[int]ending
		permits map[int]permit
		want    string
	}{
		"in order":                               {numbers: "1 2 3"},
		"a number is left out":                   {numbers: "1 3", want: disordered},
		"the first one is left out":              {numbers: "2", want: disordered},
		"a number is left out, given up":         {numbers: "1 3", passes: []span{between(1.5, 1.6)}},
		"a number is left out, given up later":   {numbers: "1 3", passes: []span{between(30, 31)}, want: disordered},
		"behind one that was refused":            {numbers: "1x 2", want: disordered},
		"behind one that was refused, discarded": {numbers: "1x 2", endings: map[int]ending{1: {discarded, between(1.5, 1.6), "an act"}}},
		"behind its successor":                   {numbers: "1x 2 1", passes: []span{between(1.5, 1.6)}, want: disordered},
		"behind its successor, asked for":        {numbers: "1x 2 1", passes: []span{between(1.5, 1.6)}, permits: map[int]permit{1: {from: at(2.5)}}},
		"behind its successor, asked for later":  {numbers: "1x 2 1", passes: []span{between(1.5, 1.6)}, permits: map[int]permit{1: {from: at(30)}}, want: disordered},
		"once more":                              {numbers: "1 2 2 3"},
	} {
		s := &stream{numbers: map[int][]*history{}, passes: c.passes}
		var found []violation
		for i, text := range strings.Fields(c.numbers) {
			n, answer := int(text[0]-'0'), 200
			if strings.HasSuffix(text, "x") {
				answer = 400
			}
			if s.numbers[n] == nil {
				h := &history{}
				if e, ok := c.endings[n]; ok {
					h.endings = append(h.endings, e)
				}
				if p, ok := c.permits[n]; ok {
					h.permits = append(h.permits, p)
				}
				s.numbers[n] = append(s.numbers[n], h)
			}
			h, r := s.numbers[n][0], call(float64(i+1), answer)
			r.Number = n
			h.requests = append(h.requests, r)
			found = append(found, s.judge(r, h)...)
		}
		if got := kindsOf(found); got != c.want {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}

// Every effect ends in a state that what happened brings about, and the books agree.
func TestBalanceNoticesEndsThatNothingExplains(t *testing.T) {
	t.Parallel()
	person := func(how string) []ending { return []ending{{how, between(1, 2), "an act"}} }
	for name, c := range map[string]struct {
		history history
		end     effectRow
		kills   bool
		want    string
	}{
		"done":                                {history{requests: []*request{call(1, 200)}}, effectRow{state: "done", attempts: 1, done: 1}, false, ""},
		"done without a success":              {history{requests: []*request{call(1, 500)}}, effectRow{state: "done", attempts: 1}, false, lost},
		"done by a person":                    {history{requests: []*request{call(1, 500)}, endings: person(resolved)}, effectRow{state: "done", attempts: 1}, false, ""},
		"an attempt that says done by itself": {history{requests: []*request{call(1, 500)}, endings: person(resolved)}, effectRow{state: "done", attempts: 1, done: 1}, false, unbalanced},
		"a request without an attempt":        {history{requests: []*request{call(1, 429), call(2, 200)}}, effectRow{state: "done", attempts: 1, done: 1}, false, unbalanced},
		"under way for ever":                  {history{}, effectRow{state: "retry"}, false, unfinished},
		"held by nothing":                     {history{}, effectRow{state: "held"}, false, unfinished},
		"held":                                {history{}, effectRow{state: "held", blocked: true}, false, ""},
		"discarded by nobody":                 {history{endings: []ending{{discarded, between(1, 2), seenInDatabase}}}, effectRow{state: "skipped", reason: "discarded"}, false, unexplained},
		"discarded":                           {history{endings: person(discarded)}, effectRow{state: "skipped", reason: "discarded"}, false, ""},
		"pruned where nothing is old":         {history{source: "pay"}, effectRow{state: "skipped", reason: "pruned"}, false, unexplained},
		"superseded without an order":         {history{route: "charge"}, effectRow{state: "superseded"}, false, unexplained},
		"a duplicate without a recipe":        {history{route: "charge"}, effectRow{state: "duplicate"}, false, unexplained},
		"dead of a refusal":                   {history{requests: []*request{call(1, 400)}}, effectRow{state: "dead", reason: "status_4xx", attempts: 1}, false, ""},
		"dead of a success":                   {history{requests: []*request{call(1, 200)}}, effectRow{state: "dead", reason: "status_4xx", attempts: 1}, false, unexplained},
		"dead for want of a body":             {history{}, effectRow{state: "dead", reason: "body_gone"}, false, unexplained},
		"dead for want of an erased body":     {history{endings: person(erased)}, effectRow{state: "dead", reason: "body_gone"}, false, ""},
		"dead of something else":              {history{}, effectRow{state: "dead", reason: "mapping_failed"}, true, unexplained},
		"unknown after silence":               {history{requests: []*request{call(1, 0)}}, effectRow{state: "indeterminate", reason: "timeout", attempts: 1}, false, ""},
		"unknown after a success":             {history{requests: []*request{call(1, 200)}}, effectRow{state: "indeterminate", reason: "timeout", attempts: 1}, false, unexplained},
		"unknown after a 429":                 {history{requests: []*request{call(1, 429)}}, effectRow{state: "indeterminate", reason: "status_503", attempts: 1}, false, unexplained},
		"unknown after a kill":                {history{}, effectRow{state: "indeterminate", reason: "lease_expired", attempts: 1}, true, ""},
		"unknown after a kill of nobody":      {history{}, effectRow{state: "indeterminate", reason: "lease_expired", attempts: 1}, false, unexplained},
	} {
		if got := kindsOf(compareEffect(&c.history, &c.end, c.kills)); got != c.want {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}

func TestMissingNoticesWhatWasAcknowledgedAndIsLost(t *testing.T) {
	t.Parallel()
	events := map[string]*event{
		"orders/a": {source: "orders", id: "a", payloads: []sentPayload{{}}, acknowledged: true},
		"orders/b": {source: "orders", id: "b", payloads: []sentPayload{{}}},
	}
	effects := map[string]bool{"orders/a/fulfil": true, "orders/a/ship": true, "orders/a/turns": true}
	if found := missingEffects(events, map[string]bool{"orders/a": true}, effects); len(found) > 0 {
		t.Errorf("nothing is lost: %v", found)
	}
	if got := kindsOf(missingEffects(events, nil, effects)); got != lost {
		t.Errorf("an event is lost: found %q", got)
	}
	delete(effects, "orders/a/ship")
	if got := kindsOf(missingEffects(events, map[string]bool{"orders/a": true}, effects)); got != lost {
		t.Errorf("an effect is lost: found %q", got)
	}
}

// A command ends with a status that is documented, says in one line for people why it
// failed, and reports what it did.
func TestComplaintNoticesHowCommandsEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		act   act
		usage string
		want  bool
	}{
		"success":                      {act: act{}},
		"a refusal":                    {act: act{CommandResult: lab.CommandResult{ExitCode: 1, Stderr: "oncegate: it is not dead [wrong_state]\n"}}},
		"a refusal in JSON":            {act: act{CommandResult: lab.CommandResult{ExitCode: 1, Stderr: `{"error":"it is \"done\"","code":"wrong_state"}` + "\n"}}},
		"a refusal without a code":     {act: act{CommandResult: lab.CommandResult{ExitCode: 1, Stderr: "oncegate: it is not dead\n"}}, want: true},
		"JSON without a code":          {act: act{CommandResult: lab.CommandResult{ExitCode: 1, Stderr: `{"error":"it is not dead"}`}}, want: true},
		"try later":                    {act: act{CommandResult: lab.CommandResult{ExitCode: 75, Stderr: "oncegate: try again later [unavailable]\n"}}},
		"a kill by the campaign":       {act: act{CommandResult: lab.CommandResult{ExitCode: -1}, killed: true}},
		"a kill by somebody else":      {act: act{CommandResult: lab.CommandResult{ExitCode: -1}}, want: true},
		"a status of its own":          {act: act{CommandResult: lab.CommandResult{ExitCode: 3, Stderr: "oncegate: no [failed]\n"}}, want: true},
		"wrong usage that is right":    {act: act{CommandResult: lab.CommandResult{ExitCode: 2, Stderr: "oncegate: say either --done or --resend [usage]\n"}}, want: true},
		"usage that is expected":       {act: act{CommandResult: lab.CommandResult{ExitCode: 2, Stderr: "oncegate: `keys activate 2` finishes that rotation [wrong_state]\n"}}, usage: "finishes that rotation"},
		"a panic":                      {act: act{CommandResult: lab.CommandResult{ExitCode: 2, Stderr: "panic: nil\n\ngoroutine 1 [running]:\n"}}, want: true},
		"a failure without a word":     {act: act{CommandResult: lab.CommandResult{ExitCode: 1}}, want: true},
		"a failure of the database's ": {act: act{CommandResult: lab.CommandResult{ExitCode: 1, Stderr: "oncegate: discarding: ERROR: deadlock detected (SQLSTATE 40P01) [failed]\n"}}, want: true},
	} {
		if got := wrongExit(&c.act, c.usage); (got != "") != c.want {
			t.Errorf("%s: found %q", name, got)
		}
	}
	for reported, want := range map[int]string{-1: "", 1: miscounted, 2: "", 3: undecided} {
		a := act{action: "effect.discard", reported: reported, decided: map[string][]string{"effect.discard": {"a", "b"}}}
		if got := kindsOf(a.compareReport()); got != want {
			t.Errorf("a command that decided 2 and reports %d: found %q, want %q", reported, got, want)
		}
	}
	if got := kindsOf(compareCount("rows", 3, 4)) + kindsOf(compareCount("rows", 4, 4)); got != miscounted {
		t.Errorf("a wrong number and a right one: found %q", got)
	}
}

func TestReplaysThatDoNotEndAreNoticed(t *testing.T) {
	t.Parallel()
	acted := at(10)
	cancelled := &act{CommandResult: lab.CommandResult{Started: at(4), Ended: at(5)}}
	for name, c := range map[string]struct {
		end     replayEnd
		cancels []*act
		want    string
	}{
		"done":                     {replayEnd{state: "done", acted: &acted}, nil, ""},
		"running":                  {replayEnd{state: "running", open: 1}, nil, endless},
		"done before its end":      {replayEnd{state: "done", open: 1}, nil, endless},
		"cancelled":                {replayEnd{state: "cancelled", open: 1}, []*act{cancelled}, ""},
		"cancelled and going on":   {replayEnd{state: "cancelled", acted: &acted}, []*act{cancelled}, endless},
		"cancelled, which is done": {replayEnd{state: "done"}, []*act{cancelled}, undecided},
	} {
		if got := kindsOf(c.end.judge(c.cancels)); got != c.want {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}

// What was erased is nowhere, as text or as bytes, and what is sealed is nowhere in plain.
func TestLeakingNoticesContent(t *testing.T) {
	t.Parallel()
	gone, stays := newMarker(1, 1), newMarker(1, 2)
	conflicting, later := newMarker(1, 3), newMarker(1, 4)
	payloadOf := func(marker string) payload { return payload{Marker: marker} }
	events := map[string]*event{
		"pay/gone": {erased: []span{between(5, 6)}, payloads: []sentPayload{
			{payload: payloadOf(gone)}, {payload: payloadOf(conflicting), sentAt: at(2)}, {payload: payloadOf(later), sentAt: at(8)},
		}},
		"pay/stays": {payloads: []sentPayload{{payload: payloadOf(stays)}}},
	}
	for name, c := range map[string]struct {
		content string
		sealed  bool
		want    string
	}{
		"what was not erased":            {`1	{"marker":"` + stays + `"}`, false, ""},
		"a conflict of later":            {`1	{"marker":"` + later + `"}`, false, ""},
		"text that was erased":           {`1	{"marker":"` + gone + `"}`, false, leaked},
		"bytes that were erased":         {`1	\\x7b` + hex.EncodeToString([]byte(gone)) + `7d`, false, leaked},
		"a conflict of before":           {`1	\\x` + hex.EncodeToString([]byte(conflicting)), false, leaked},
		"what is to be sealed":           {`1	{"marker":"` + stays + `"}`, true, leaked},
		"bytes that are to be sealed":    {`1	\\x` + hex.EncodeToString([]byte(stays)), true, leaked},
		"what is sealed and of no event": {`1	\\x00ff`, true, ""},
	} {
		if got := kindsOf(findLeaks("t", []byte(c.content), events, c.sealed)); got != c.want {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}

func TestOldKeysAreNoticed(t *testing.T) {
	t.Parallel()
	rows := []keyRow{{ID: 1}, {ID: 2, Active: true, Usage: []prune.KeyUsage{{Table: "effect", Column: "result", Key: 2, Values: 7}}}}
	if found := leftUnderOldKeys(rows); len(found) > 0 {
		t.Errorf("everything is under the active key: %v", found)
	}
	rows[0].Usage = []prune.KeyUsage{{Table: "effect", Column: "result", Key: 1, Values: 1}}
	if got := kindsOf(leftUnderOldKeys(rows)); got != keptOldKey {
		t.Errorf("a value is under an old key: found %q", got)
	}
}

// A request under a key that no effect has is of nobody.
func TestHearNoticesAForeignKey(t *testing.T) {
	t.Parallel()
	c := newCampaign(options{}, &lab.World{})
	c.byKey["k"] = []*history{{key: "k"}}
	c.recordRequests([]*request{call(1, 200)})
	replayed := call(2, 200)
	replayed.key = "k~v2"
	if c.recordRequests([]*request{replayed}); len(c.violations) > 0 {
		t.Errorf("an effect's first and second key: %v", c.violations)
	}
	foreign := call(3, 200)
	foreign.key = "other"
	if c.recordRequests([]*request{foreign}); kindsOf(c.violations) != unexpected {
		t.Errorf("a foreign key: found %v", c.violations)
	}
}

// Two effects with one key are one effect that happens twice.
func TestNameNoticesAKeyThatIsTaken(t *testing.T) {
	t.Parallel()
	c := newCampaign(options{}, &lab.World{})
	c.nameOf(&history{id: "1", key: "k"})
	if c.nameOf(&history{id: "2", key: "l"}); len(c.violations) > 0 {
		t.Errorf("two effects with two keys: %v", c.violations)
	}
	if c.nameOf(&history{id: "3", key: "k"}); kindsOf(c.violations) != doubled {
		t.Errorf("two effects with one key: found %v", c.violations)
	}

	// A recipe gives events of one meaning one key, but no event two effects.
	c = newCampaign(options{}, &lab.World{})
	c.nameOf(&history{id: "1", key: "k", route: "receipt", event: "a"})
	if c.nameOf(&history{id: "2", key: "k", route: "receipt", event: "b"}); len(c.violations) > 0 {
		t.Errorf("two events of one meaning: found %v", c.violations)
	}
	if c.nameOf(&history{id: "3", key: "k", route: "receipt", event: "b"}); kindsOf(c.violations) != doubled {
		t.Errorf("two effects of one event: found %v", c.violations)
	}
}

// A long campaign in which something never happened proves nothing about it.
func TestNeverNamesWhatDidNotHappen(t *testing.T) {
	t.Parallel()
	c := newCampaign(options{}, &lab.World{})
	c.ledger = &targetLedger{}
	for _, name := range requiredFigures {
		if !slices.Contains(c.missingFigures(), name) {
			t.Fatalf("nothing happened, and %q is not missed", name)
		}
		c.counts[name]++
	}
	for _, v := range variants {
		c.counts["started "+v.name]++
	}
	if missing := c.missingFigures(); len(missing) > 0 {
		t.Errorf("everything happened, and %v is missed", missing)
	}
}
