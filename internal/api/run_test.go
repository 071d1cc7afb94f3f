package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/control"
)

// compared is a page of compare_run.
type compared struct {
	Data []struct {
		Event, Verdict string
		Match          bool
		Original       *struct{ Target string }
		PayloadHidden  bool `json:"payload_hidden"`
	}
	HasMore bool `json:"has_more"`
	Next    string
}

// A server compares the events with a label page by page: it shows what was sent to whoever may read payloads, to a tenant its own,
// and changes and sends nothing.
func TestARunIsComparedOverTheAPI(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	label := func(event inbox.ID) string {
		h.exec(t, `INSERT INTO event_label (event_id, name, value) VALUES ($1, 'order', '7')`, event)
		return event.String()
	}
	var events []string
	for _, tenant := range []string{"acme", "blue", "acme"} {
		event, _ := h.effect(t, tenant, "ship", "done", "")
		events = append(events, label(event))
	}
	get := func(who, query string) (out compared) {
		t.Helper()
		answer := h.request(t, http.MethodGet, "/runs/comparison?label=order%3D7"+query, who, nil)
		answer.into(t, &out)
		return out
	}
	all := get("read-payload", "")
	if len(all.Data) != 3 || all.HasMore {
		t.Fatalf("%+v, want three steps", all)
	}
	for i, step := range all.Data {
		if step.Event != events[i] || step.PayloadHidden || step.Original == nil || step.Match {
			t.Errorf("step %d is %+v, want that of %s, with what was sent", i, step, events[i])
		}
	}
	if first := get("read-payload", "&limit=2"); len(first.Data) != 2 || !first.HasMore || first.Next != events[1] {
		t.Errorf("the first page is %+v", first)
	}
	if second := get("read-payload", "&limit=2&after="+events[1]); len(second.Data) != 1 || second.HasMore || second.Data[0].Event != events[2] {
		t.Errorf("the second page is %+v", second)
	}
	if got := h.request(t, http.MethodGet, "/runs/comparison?label=order%3D7", "read-metadata", nil); got.status != http.StatusForbidden {
		t.Errorf("without read-payload a label is searched: %d %s", got.status, got.body)
	}
	if own := get("read-payload@acme", ""); len(own.Data) != 2 || own.Data[0].Event != events[0] || own.Data[1].Event != events[2] {
		t.Errorf("the tenant sees %+v", own)
	}
	if none := get("read-payload@acme", "&source=blue"); len(none.Data) != 0 {
		t.Errorf("the tenant sees another's %+v", none)
	}
	for query, want := range map[string]string{
		"":                 "name a run with its source, or a label",
		"?label=Order%3D7": "begins with a letter",
		"?label=order":     "write name=value",
		"?label=order%3D":  "the value is missing",
		"?label=order%3D" + strings.Repeat("x", 256): "at most 255 bytes",
		"?run=42":                     "takes operations",
		"?label=order%3D7&after=x":    "not a cursor",
		"?label=order%3D7&limit=1001": "must be from 1 to 1000",
	} {
		if got := h.request(t, http.MethodGet, "/runs/comparison"+query, "read-payload", nil); got.status != http.StatusBadRequest || !strings.Contains(string(got.body), want) {
			t.Errorf("%q: %d %s, want %q", query, got.status, got.body, want)
		}
	}
	var replays int
	if err := h.pool.QueryRow(t.Context(), `SELECT count(*) FROM replay`).Scan(&replays); err != nil || replays != 0 {
		t.Errorf("%d replays were planned, %v", replays, err)
	}
}

// A plan is limited to a label, and tells its value to whoever may read payloads alone.
func TestAReplayOfALabelOverTheAPI(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	event, dead := h.effect(t, "acme", "ship", "dead", "status_4xx")
	h.exec(t, `CREATE TABLE body_of_test PARTITION OF inbox_body FOR VALUES IN ('default')`)
	h.exec(t, `INSERT INTO inbox_body (class, id, headers, body) VALUES ('default', $1, '{}', '7')`, event)
	h.exec(t, `INSERT INTO event_label (event_id, name, value) VALUES ($1, 'order', '7')`, event)
	_, other := h.effect(t, "acme", "ship", "dead", "status_4xx")
	type planned struct {
		ID    string
		Scope struct {
			Label struct {
				Name, Value   string
				PayloadHidden bool `json:"payload_hidden"`
			}
		}
		Summary  struct{ Items int }
		Warnings []string
	}
	var plan, foreign planned
	h.do(t, "operate+read-payload", "/replays", object{"label": "order=7"}).into(t, &plan)
	if plan.Summary.Items != 1 || plan.Scope.Label.Name != "order" || plan.Scope.Label.Value != "7" || plan.Scope.Label.PayloadHidden {
		t.Errorf("planned %+v", plan)
	}
	if !strings.Contains(strings.Join(plan.Warnings, "\n"), "no source declares the label order today; none is") {
		t.Errorf("the warnings are %q", plan.Warnings)
	}
	for who, want := range map[string]string{"read-payload": "7", "read-metadata": "", "admin": "7"} {
		var shown planned
		h.request(t, http.MethodGet, "/replays/"+plan.ID, who, nil).into(t, &shown)
		if shown.Scope.Label.Value != want || shown.Scope.Label.PayloadHidden != (want == "") {
			t.Errorf("%s sees %+v", who, shown.Scope.Label)
		}
	}
	expect(t, "ids and a label", h.do(t, "operate+read-payload", "/replays", object{"ids": []inbox.ID{dead}, "label": "order=7"}), control.CodeInvalid)
	expect(t, "a bad label", h.do(t, "operate+read-payload", "/replays", object{"label": "order"}), control.CodeInvalid)
	expect(t, "a run of no operations", h.do(t, "operate+read-payload", "/replays", object{"run": "42", "filter": object{"source": "acme"}}), control.CodeInvalid)
	expect(t, "ids and a label at once", h.do(t, "operate+read-payload", "/dead-letters/replay", object{"ids": []inbox.ID{dead}, "label": "order=7", "reason": "r"}), control.CodeInvalid)
	h.do(t, "operate+read-payload@blue", "/dead-letters/replay", object{"label": "order=7", "reason": "r"}).into(t, &foreign)
	if foreign.Summary.Items != 0 || h.state(t, dead) != "dead" {
		t.Errorf("another tenant planned %+v", foreign)
	}
	var ran struct{ State string }
	h.do(t, "operate+read-payload@acme", "/dead-letters/replay", object{"label": "order=7", "reason": "r"}).into(t, &ran)
	if ran.State != "running" || h.state(t, other) != "dead" {
		t.Errorf("the replay of dead letters is %+v", ran)
	}
}
