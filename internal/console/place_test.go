package console_test

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/console"
	"github.com/oncegate/oncegate/internal/control"
)

// elsewhere are the operations that no page asks, each with the reason.
var elsewhere = map[string]string{
	"show_dead_letter":    "a dead letter is an effect or an event, and is shown as that",
	"list_attempts":       "an effect is shown with its attempts",
	"list_indeterminates": "they are listed as the effects in that state",
	"read_event_body":     "a page reveals the payload with its headers, by reveal_payload",
	"read_conflict_body":  "likewise",
	"read_refusal_body":   "likewise",
	"read_outbox_payload": "what is emitted waits for milliseconds, and is an event then",
	"find_reference":      "pages link to what they name, and the search of events takes references",
	"discard_outbox":      "who clears the outbox reads the log of the relay first, at the command line",
	"discard_route":       "a route that is gone is cleared with the configuration at hand, at the command line",
	"move_route":          "likewise",
	"run_prune":           "prune runs by itself; the page of retention gives the command",
	"test_source":         "the page of a source gives the command, which also says what was answered",
	"replay_dead_letters": "a page plans and runs in two steps, so that somebody sees the plan",
}

// words are those that a form may ask to be typed.
var typed = []string{"discard", "done", "resend", "apply", "skip", "unblock", "admit", "erase", "reverify", "12345678", "end", "revoke", "7"}

// Whatever the API can do can be done on a page, or there is a reason why not.
func TestEveryOperationHasItsPlace(t *testing.T) {
	t.Parallel()
	caller := &filler{text: "x", asked: map[string]int{}}
	c := newConsole(t, caller, control.Admin)
	for _, path := range pagePaths() {
		get(t, c, path+"?source=s&credential=c&key=k&q="+someID)
		get(t, c, path)
	}
	for _, pattern := range console.Patterns() {
		path, ok := strings.CutPrefix(pattern, "POST ")
		if !ok {
			continue
		}
		path = strings.NewReplacer("{id}", someID, "{ref}", "7").Replace(path)
		for _, word := range typed {
			for _, extra := range []url.Values{{"addresses": {"a@example.com b@example.com"}, "id": {someID}}, {"addresses": {"a@example.com"}, "source": {"s"}, "all": {"true"}}} {
				form := url.Values{
					"confirm": {word}, "count": {"7"}, "digest": {"1234567890"}, "reason": {"a test"}, "as": {word}, "seen": {"x"}, "address": {"a@example.com"}, "days": {"9"},
					"first": {someID}, "second": {someID}, "read-metadata": {"true"}, "name": {"n"}, "ref": {"r"},
				}
				maps.Copy(form, extra)
				if answer := send(t, c, http.MethodPost, path, form.Encode()); answer.Code >= 500 {
					t.Errorf("POST %s: %d", path, answer.Code)
				}
			}
		}
	}
	held := &filler{text: "dead", asked: caller.asked} // a page offers what fits the state
	get(t, newConsole(t, held, control.Admin), "/effects/"+someID)
	var known []string
	for _, operation := range control.Operations() {
		id := operation.Describe().ID
		known = append(known, id)
		switch reason := elsewhere[id]; {
		case caller.asked[id] == 0 && reason == "":
			t.Errorf("no page asks %s, and no reason is given", id)
		case caller.asked[id] > 0 && reason != "":
			t.Errorf("a page asks %s, and a reason is given why none does", id)
		}
	}
	for id := range elsewhere {
		if !slices.Contains(known, id) {
			t.Errorf("there is no operation %s", id)
		}
	}
}
