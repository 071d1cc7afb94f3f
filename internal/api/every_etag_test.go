package api_test

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/access/accesstest"
	"github.com/oncegate/oncegate/internal/control"
)

// shows are, for each decision that takes If-Match, the operations that show what it is about, with their requests.
func shows(th *things) map[string]map[string]request {
	effect := func(id any) map[string]request { return map[string]request{"show_effect": {"id": id}} }
	stream := map[string]request{"show_stream": {"ref": fmt.Sprint(th.stream)}}
	dead := map[string]request{"show_effect": {"id": th.dead}, "show_dead_letter": {"id": th.dead}}
	replay := map[string]request{"show_replay": {"id": th.replay}}
	return map[string]map[string]request{
		"resolve_effect": effect(th.unknown), "cancel_list": effect(th.unknown), "apply_effect": effect(th.held), "skip_effect": effect(th.held),
		"skip_stream": stream, "unblock_stream": stream, "apply_stream": stream,
		"discard_dead_letters": dead, "replay_dead_letters": dead,
		"admit_conflict": {"show_conflict": {"id": th.conflict}}, "erase_event": {"show_event": {"ref": th.event}},
		"run_replay": replay, "cancel_replay": replay,
	}
}

// etags are the ETags of all that the API shows of the things.
func (s *tenantServer) etags(t *testing.T, token string, th *things) (out []string) {
	t.Helper()
	known := examples(th)
	for _, operation := range control.Operations() {
		d := operation.Describe()
		if d.Method != http.MethodGet {
			continue
		}
		if _, _, header := s.send(t, token, &d, known[d.ID], nil); header.Get("ETag") != "" {
			out = append(out, header.Get("ETag"))
		}
	}
	for _, id := range []any{th.unknown, th.held} {
		d := control.ShowEffect.Describe()
		_, _, header := s.send(t, token, &d, request{"id": id}, nil)
		out = append(out, header.Get("ETag"))
	}
	return out
}

// Every decision compares the ETag of what it is about. Every other ETag of the API and every empty one is refused, and nothing
// happens.
func TestEveryETagWithEveryDecision(t *testing.T) {
	t.Parallel()
	s := newTenantServer(t)
	owner := accesstest.Token(t, s.pool, "acme", control.Admin)
	other := s.things(t)
	matching := 0
	for _, operation := range control.Operations() {
		d := operation.Describe()
		if d.Method == http.MethodGet {
			continue
		}
		th := s.things(t)
		own := shows(&th)[d.ID]
		takes := reflect.PointerTo(d.Request).Implements(reflect.TypeFor[interface{ SetIfMatch(tag string) }]())
		if takes != (own != nil) {
			t.Errorf("%s takes If-Match: %t, and this test has %d operations that show what it is about", d.ID, takes, len(own))
			continue
		}
		if status, _ := s.ask(t, owner, &d, nil); status == http.StatusForbidden {
			continue // it is about the whole installation
		}
		var match []string
		for id, ask := range own {
			i := slices.IndexFunc(control.Operations(), func(o control.Definition) bool { return o.Describe().ID == id })
			show := control.Operations()[i].Describe()
			status, text, header := s.send(t, owner, &show, ask, nil)
			if status != http.StatusOK {
				t.Fatalf("%s: %d %s", id, status, text)
			}
			match = append(match, header.Get("ETag"))
		}
		example := examples(&th)[d.ID]
		decide := func(tag string) (int, string) {
			t.Helper()
			status, text, _ := s.send(t, owner, &d, example, http.Header{"If-Match": {tag}})
			return status, text
		}
		before := inboxtest.Tables(t, s.pool)
		wrong := append(s.etags(t, owner, &th), s.etags(t, owner, &other)...)
		wrong = append(wrong, `""`, ``, `"."`, `".0000000000000000"`, `"x"`, `W/"x"`, `"x", "y"`)
		for _, tag := range wrong {
			if slices.Contains(match, tag) {
				continue
			}
			status, text := decide(tag)
			if status != http.StatusPreconditionFailed && status != http.StatusBadRequest || takes && tag == `""` && status != http.StatusPreconditionFailed {
				t.Errorf("%s with the ETag %s of something else answers %d %s", d.ID, tag, status, text)
			}
		}
		changed := slices.DeleteFunc(inboxtest.Changed(before, inboxtest.Tables(t, s.pool)), func(table string) bool {
			return slices.Contains([]string{"access_token", "audit"}, table) // its last use, and what the etags read
		})
		if len(changed) > 0 {
			t.Errorf("%s with the ETags of something else changed %v", d.ID, changed)
		}
		if !takes {
			continue
		}
		for i, tag := range match {
			status, text := decide(tag)
			if i == 0 && (strings.Contains(text, "the ETag in If-Match") || strings.Contains(text, "takes no If-Match")) { // what else refuses it has its own tests
				t.Errorf("%s with the ETag of what it is about answers %d %s", d.ID, status, text)
			}
			if status != http.StatusOK {
				t.Logf("%s: %d %s", d.ID, status, text)
				continue
			}
			matching++
			if d.ID == "replay_dead_letters" {
				continue // the workers carry the replay out, and none are here
			}
			if status, text := decide(tag); status != http.StatusPreconditionFailed {
				t.Errorf("%s again, with the ETag of before, answers %d %s", d.ID, status, text)
			}
		}
	}
	if matching < 8 {
		t.Errorf("only %d decisions were taken with the ETag of what they are about", matching)
	}
}
