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
	"github.com/oncegate/oncegate/internal/control/controltest"
)

// typed are the words that a form may ask for.
var typed = []string{"discard", "done", "resend", "apply", "skip", "unblock", "admit", "erase", "reverify", "12345678", "end", "revoke", "7", "test", "prune", "cancel"}

// askedBy are the patterns of the pages and forms that ask each operation.
func askedBy(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	note := func(caller *controltest.Filler, pattern string) {
		for id := range caller.Asked() {
			_, path, _ := strings.Cut(pattern, " ")
			out[id] = append(out[id], path)
		}
	}
	for _, state := range []string{"x", "dead"} { // a page offers what fits the state
		caller := filler(state)
		c := newConsole(t, caller, control.Admin)
		for _, pattern := range console.Patterns() {
			method, path, _ := strings.Cut(pattern, " ")
			path = strings.NewReplacer("{$}", "", "{id}", someID, "{name}", "stripe", "{ref}", "7", "{source}", "stripe", "{route}", "billing").Replace(path)
			if method == http.MethodGet {
				get(t, c, path+"?source=s&credential=c&key=k&route=r&run=r&q="+someID)
				get(t, c, path)
				note(caller, pattern)
				continue
			}
			for _, word := range typed {
				for _, extra := range []url.Values{{"addresses": {"a@example.com b@example.com"}, "id": {someID}}, {"addresses": {"a@example.com"}, "source": {"s"}, "all": {"true"}}} {
					form := url.Values{
						"confirm": {word}, "count": {"7"}, "digest": {"1234567890"}, "reason": {"a test"}, "as": {word}, "seen": {"x"}, "address": {"a@example.com"}, "days": {"9"}, "causes": {`[{"source":"s","cause":"mismatch"}]`},
						"first": {someID}, "second": {someID}, "read-metadata": {"true"}, "name": {"n"}, "ref": {"r"},
					}
					maps.Copy(form, extra)
					if answer := send(t, c, http.MethodPost, path, form.Encode()); answer.Code >= 500 {
						t.Errorf("POST %s: %d", path, answer.Code)
					}
				}
			}
			note(caller, pattern)
		}
	}
	return out
}

// Whatever the API can do can be done on the page that the table of places names, or the table gives a reason why not.
func TestEveryOperationHasItsPlace(t *testing.T) {
	t.Parallel()
	asked := askedBy(t)
	var known, placed []string
	for _, operation := range control.Operations() {
		known = append(known, operation.Describe().ID)
	}
	patterns := console.Patterns()
	for _, place := range console.Places() {
		if whole := place.Operation != "" && len(place.Commands) > 0 && place.Page != ""; whole == (place.Reason != "") {
			t.Errorf("%+v: a place that lacks an operation, a command or a page needs a reason, and no other has one", place)
		}
		if place.Operation == "" {
			continue
		}
		if placed = append(placed, place.Operation); !slices.Contains(known, place.Operation) {
			t.Errorf("there is no operation %s", place.Operation)
		}
		if place.Page == "" {
			if by := asked[place.Operation]; len(by) > 0 {
				t.Errorf("%v ask %s, and a reason is given why no page does", by, place.Operation)
			}
			continue
		}
		if !slices.ContainsFunc(patterns, func(p string) bool {
			return strings.HasSuffix(p, " "+place.Page) || p == "GET "+place.Page+"{$}" || strings.Contains(p, " "+place.Page+"/")
		}) {
			t.Errorf("%s: there is no page %s", place.Operation, place.Page)
		}
		if !slices.ContainsFunc(asked[place.Operation], func(by string) bool {
			return by == place.Page || by == place.Page+"{$}" || strings.HasPrefix(by, place.Page+"/")
		}) {
			t.Errorf("%s is not asked by %s, but by %v", place.Operation, place.Page, asked[place.Operation])
		}
	}
	for _, id := range known {
		if !slices.Contains(placed, id) {
			t.Errorf("the table of places does not have %s", id)
		}
	}
}
