package receiver_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/receiver"
)

// byMeaning compares payloads as declared operations do, with one member that does not count, and knows
// the comparison of before.
func byMeaning(s *receiver.Source) {
	whole := func(drop string) func([]byte) ([]byte, bool) {
		return func(body []byte) ([]byte, bool) {
			var members map[string]any
			if json.Unmarshal(body, &members) != nil {
				return nil, false
			}
			delete(members, drop)
			text, err := json.Marshal(members)
			return text, err == nil
		}
	}
	s.Inbox.Comparisons = map[string]*inbox.Comparison{"charge": {
		Canonical: whole("note"), Mark: inbox.MarkMeaning, Former: []*inbox.Comparison{{Canonical: whole("")}},
	}}
}

func intentOf(mark, canonical string) string {
	sum := sha256.Sum256([]byte(mark + canonical))
	return hex.EncodeToString(sum[:])
}

// A caller that says which intent its call has is refused where the payload says another one: it was
// changed on the way, or belongs to another step of the plan.
func TestACallHasTheIntentThatItsCallerPlanned(t *testing.T) {
	t.Parallel()
	const key = "order-1742/charge"
	meant, other := intentOf(inbox.MarkMeaning, `{"n":1}`), intentOf(inbox.MarkMeaning, `{"n":2}`)
	former, bytes := intentOf("", `{"n":1,"note":"x"}`), intentOf("", "not json")
	for name, c := range map[string]struct {
		body, header string
		recorded     bool
		detail       string
	}{
		"its own":                              {`{"n":1}`, meant, false, ""},
		"its own in another spelling":          {`{ "note": "x", "n":1}`, strings.ToUpper(meant), false, ""},
		"as a structured field's text":         {`{"n":1}`, `"` + meant + `"`, false, ""},
		"of the comparison of before":          {`{"n":1,"note":"x"}`, former, false, ""},
		"the bytes of what is no JSON":         {"not json", bytes, false, ""},
		"of another payload":                   {`{"n":1}`, other, false, "the payload has the intent hash " + meant},
		"of another payload that is no JSON":   {"not json", other, false, "the payload has the intent hash " + bytes},
		"no hash":                              {`{"n":1}`, "charge", false, "is not a SHA-256 in hex"},
		"part of the hash":                     {`{"n":1}`, meant[:32], false, "is not a SHA-256 in hex"},
		"nothing":                              {`{"n":1}`, "", false, "is not a SHA-256 in hex"},
		"of another payload, but key is known": {`{"n":1}`, other, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := answering(inbox.Recorded)
			known := &outcomes{keys: map[string]inbox.ID{}}
			if c.recorded {
				known.keys["9/agent:charge:"+key] = recorded
			}
			h := operations(t, g, known, byMeaning)
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/in/agents", strings.NewReader(c.body))
			for name, value := range map[string]string{"Authorization": "Bearer one", "Oncegate-Operation": "charge", "Idempotency-Key": key, "Oncegate-Intent-Hash": c.header} {
				req.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			if c.detail == "" {
				if w.Code != http.StatusAccepted || len(g.admissions()) != 1 {
					t.Errorf("%d %s, %d admissions", w.Code, w.Body, len(g.admissions()))
				}
				return
			}
			var told struct {
				Code, Detail string
				Retriable    bool
			}
			if err := json.Unmarshal(w.Body.Bytes(), &told); err != nil || w.Code != 422 || told.Code != "intent_differs" || told.Retriable || !strings.Contains(told.Detail, c.detail) {
				t.Errorf("%d %s, %v", w.Code, w.Body, err)
			}
			if seen := g.admissions(); len(seen) != 0 {
				t.Errorf("the key was spent: %+v", seen)
			}
		})
	}
	// Two of them are none.
	g := answering(inbox.Recorded)
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/in/agents", strings.NewReader(`{"n":1}`))
	req.Header = http.Header{"Authorization": {"Bearer one"}, "Oncegate-Operation": {"charge"}, "Idempotency-Key": {key}, "Oncegate-Intent-Hash": {meant, meant}}
	w := httptest.NewRecorder()
	operations(t, g, &outcomes{}, byMeaning).ServeHTTP(w, req)
	if w.Code != 422 || !strings.Contains(w.Body.String(), "is there twice") || len(g.admissions()) != 0 {
		t.Errorf("two hashes: %d %s", w.Code, w.Body)
	}
}
