package api_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/access/accesstest"
	"github.com/oncegate/oncegate/internal/control"
)

// markedLength is the length of every body of a marked world. No id has a group of five digits, so it is found in no id.
const markedLength = 12373

// mark is a value that a token without read-payload must not see.
type mark struct {
	kind control.MetadataKind
	find *regexp.Regexp
}

// markedBody is a body of markedLength bytes with a member that is named by a mark.
func markedBody(text string) []byte {
	body := `{"membermark":"contentmark ` + text + `","pad":"`
	return []byte(body + strings.Repeat("x", markedLength-len(body)-2) + `"}`)
}

// markWorld makes a thing of each kind with values that are marked, and returns the marks.
func (s *tenantServer) markWorld(t *testing.T) (things, []mark) {
	t.Helper()
	th := s.things(t)
	var marks []mark
	literal := func(kind control.MetadataKind, texts ...string) {
		for _, text := range texts {
			marks = append(marks, mark{kind, regexp.MustCompile(regexp.QuoteMeta(text))})
		}
	}
	hash := func(content []byte) string {
		sum := sha256.Sum256(content)
		literal(control.MetadataHash, hex.EncodeToString(sum[:]))
		marks = append(marks, mark{"", regexp.MustCompile(regexp.QuoteMeta(base64.StdEncoding.EncodeToString(sum[:])[:40]))},
			mark{"", regexp.MustCompile(base64.RawURLEncoding.EncodeToString(sum[:])[:40])})
		return hex.EncodeToString(sum[:])
	}
	first, other, refused := markedBody("first"), markedBody("other"), markedBody("refused")
	sum, otherSum := hash(first), hash(other)
	digest := hash([]byte("the canonical form"))
	eventID := "sha256:" + digest
	s.exec(t, `UPDATE inbox_body SET body = $2 WHERE id = $1`, th.event, first)
	s.exec(t, `UPDATE inbox_event SET event_id = $2, body_sha256 = decode($3, 'hex'), body_length = $4, conflict_paths = '{$.membermark}', conflicts = 1, conflict_at = now()
		WHERE id = $1`, th.event, eventID, sum, markedLength)
	s.exec(t, `UPDATE conflict SET body = $2, sha256 = decode($3, 'hex'), payload_sha256 = decode($3, 'hex'), paths = '{$.membermark}' WHERE id = $1`, th.conflict, other, otherSum)
	s.exec(t, `UPDATE refusal SET body = $2, size = $3, url = '/in/x?q=querymark', headers = '{"X-Name":["headermark"]}' WHERE id = $1`, th.refusal, refused, markedLength)
	s.exec(t, `UPDATE outbox SET payload = $2 WHERE id = $1`, th.outbox, first)
	recipe := "og2_" + strings.Repeat("recipemark0", 4)[:43]
	made := "og1_" + strings.Repeat("digestmark0", 4)[:43]
	s.exec(t, `UPDATE effect SET idempotency_key = $2 WHERE id = $1`, th.unknown, recipe)
	s.exec(t, `UPDATE effect SET idempotency_key = $2 WHERE id = $1`, th.dead, made)
	s.exec(t, `UPDATE effect_attempt SET excerpt = 'replymark', key_digest = substring(sha256(convert_to($2, 'UTF8')) FOR 16) WHERE effect_id = $1`, th.dead, made)
	s.exec(t, `UPDATE stream SET key_label = 'seqmark' WHERE id = $1`, th.stream)
	s.exec(t, `INSERT INTO event_label (event_id, name, value) VALUES ($1, 'order', 'labelmark')`, th.event)
	s.exec(t, `UPDATE replay SET scope = '{"tenant":"acme","text":"textmark","label":{"name":"order","value":"labelmark"}}' WHERE id = $1`, th.replay)
	s.exec(t, `UPDATE replay_item SET diff = '{"changes":[{"path":"$.membermark","before":"diffmark"}]}' WHERE replay_id = $1`, th.replay)
	s.exec(t, `INSERT INTO suppression (id, digest, target, address, reason, created_at) VALUES ($1, sha256('mailmark'), '', 'mailmark@example.com', 'manual', now())`, inbox.NewID(time.Now()))
	s.exec(t, `INSERT INTO audit (id, actor, action, object, after) VALUES ($1, 'ann', 'conflict.admit', 'event/x', jsonb_build_object('event_id', $2::text, 'admitted', 'evt~' || left($3::text, 12)))`,
		inbox.NewID(time.Now()), eventID, otherSum)
	literal(control.MetadataEventID, digest)
	literal("", "evt~"+otherSum[:12])
	literal(control.MetadataMember, "membermark")
	literal(control.MetadataLabel, "labelmark")
	literal(control.MetadataSequenceKey, "seqmark")
	literal(control.MetadataKey, recipe, made)
	literal(control.MetadataAddress, "mailmark@example.com")
	literal(control.MetadataURL, "querymark")
	literal(control.MetadataContent, "contentmark", "headermark", "replymark", "diffmark", "textmark")
	suppressed := sha256.Sum256([]byte("mailmark"))
	literal(control.MetadataHash, hex.EncodeToString(suppressed[:])[:8])
	marks = append(marks, mark{control.MetadataLength, regexp.MustCompile(fmt.Sprintf(`\b%d\b`, markedLength))})
	return th, marks
}

// walk asks every operation with a token, and returns the answers by the ids of the operations.
func (s *tenantServer) walk(t *testing.T, token string, th *things) map[string]string {
	t.Helper()
	known, out := examples(th), map[string]string{}
	for _, operation := range control.Operations() {
		d := operation.Describe()
		example := known[d.ID]
		if example == nil {
			example = request{}
		}
		_, text := s.ask(t, token, &d, example)
		if d.ID == "list_audit" {
			for _, object := range []string{"", "event/" + th.event.String()} {
				_, more := s.ask(t, token, &d, request{"object": object})
				text += more
			}
		}
		for _, kind := range []string{"event", "conflict", "refusal"} {
			if d.ID == "show_payload" {
				_, more := s.ask(t, token, &d, request{"kind": kind, "id": map[string]inbox.ID{"event": th.event, "conflict": th.conflict, "refusal": th.refusal}[kind]})
				text += more
			}
		}
		if d.ID == "show_effect" || d.ID == "list_attempts" {
			_, more := s.ask(t, token, &d, request{"id": th.unknown})
			text += more
		}
		out[d.ID] = text
	}
	return out
}

// A token without read-payload sees nothing that the table of metadata keeps from it, in the answer of any operation. A token with it
// sees what the table says that it sees. A new operation is in the walk by itself.
func TestMetadataIsShownAsTheTableSays(t *testing.T) {
	t.Parallel()
	for _, scopes := range [][]control.Scope{{control.ReadMetadata}, {control.Operate}} {
		t.Run(string(scopes[0]), func(t *testing.T) {
			t.Parallel()
			s := newTenantServer(t)
			th, marks := s.markWorld(t)
			token := accesstest.Token(t, s.pool, "", scopes...)
			reader := accesstest.Token(t, s.pool, "", control.ReadPayload)
			seen := s.walk(t, reader, &th)
			for id, text := range s.walk(t, token, &th) {
				for _, m := range marks {
					if m.find.MatchString(text) {
						t.Errorf("%s shows %s (%s) to a token with %s: %s", id, m.find, m.kind, scopes, text)
					}
				}
			}
			for _, m := range marks {
				shown := m.kind == ""
				for _, text := range seen {
					shown = shown || m.find.MatchString(text)
				}
				if !shown {
					t.Errorf("no operation shows %s (%s) to a token with read-payload", m.find, m.kind)
				}
			}
		})
	}
}

// A search by a value needs the scope that shows the value: a token that could search could guess.
func TestSearchesNeedTheScopeThatShowsTheValue(t *testing.T) {
	t.Parallel()
	s := newTenantServer(t)
	th, _ := s.markWorld(t)
	digest := sha256.Sum256([]byte("the canonical form"))
	id := "sha256:" + hex.EncodeToString(digest[:])
	recipe := "og2_" + strings.Repeat("recipemark0", 4)[:43]
	made := "og1_" + strings.Repeat("digestmark0", 4)[:43]
	described := map[string]control.Description{}
	for _, operation := range control.Operations() {
		d := operation.Describe()
		described[d.ID] = d
	}
	metadata := accesstest.Token(t, s.pool, "", control.Operate)
	reader := accesstest.Token(t, s.pool, "", control.ReadPayload, control.Operate)
	for _, search := range []struct {
		operation string
		request   request
	}{
		{"list_events", request{"label": "order=labelmark"}},
		{"list_events", request{"event_id": id}},
		{"show_event", request{"ref": tenantMark + "/" + id}},
		{"list_effects", request{"key": recipe}},
		{"list_effects", request{"key": strings.Repeat("0", 32) + "@example.com"}},
		{"list_effects", request{"event_id": id}},
		{"find_reference", request{"kind": "effect", "ref": recipe}},
		{"find_reference", request{"kind": "event", "ref": id}},
		{"list_dead_letters", request{"text": "replymark"}},
		{"group_dead_letters", request{"event_id": id}},
		{"list_streams", request{"key": "seqmark"}},
		{"list_undecided_effects", request{"key": "seqmark"}},
		{"show_stream", request{"ref": tenantMark + "/all/seqmark"}},
		{"skip_stream", request{"ref": tenantMark + "/all/seqmark", "reason": "r"}},
		{"plan_replay", request{"label": "order=labelmark", "reason": "r"}},
		{"plan_replay", request{"filter": map[string]any{"text": "replymark"}, "reason": "r"}},
		{"compare_run", request{"label": "order=labelmark"}},
		{"check_suppression", request{"address": "mailmark@example.com"}},
	} {
		d := described[search.operation]
		if status, text := s.ask(t, metadata, &d, search.request); status != http.StatusForbidden || !strings.Contains(text, "read-payload") {
			t.Errorf("%s %v without read-payload: %d %s", search.operation, search.request, status, text)
		}
		if status, text := s.ask(t, reader, &d, search.request); status == http.StatusForbidden {
			t.Errorf("%s %v with read-payload: %d %s", search.operation, search.request, status, text)
		}
	}
	// The key of an effect of an event whose id is made of content can be guessed as the id can, and looks like any other key.
	effects, reference := described["list_effects"], described["find_reference"]
	for token, found := range map[string]bool{metadata: false, reader: true} {
		if _, text := s.ask(t, token, &effects, request{"key": made}); strings.Contains(text, th.dead.String()) != found {
			t.Errorf("the effects with the key: %s, want found to be %t", text, found)
		}
		if _, text := s.ask(t, token, &reference, request{"kind": "effect", "ref": made}); strings.Contains(text, th.dead.String()) != found {
			t.Errorf("the effect with the key: %s, want found to be %t", text, found)
		}
	}
}
