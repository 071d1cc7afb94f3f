package app_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
)

// dry answers a dry run by its order.
func (a *auditing) dry(w http.ResponseWriter, r *http.Request, order string) {
	order = strings.TrimPrefix(order, "/")
	body, _ := io.ReadAll(r.Body)
	a.questions.Add(1)
	a.bodies.Store(order, r.Method+" "+string(body)+" "+r.Header.Get("Idempotency-Key"))
	w.Header().Set("Location", "/orders/"+order)
	switch order {
	case "refused":
		w.WriteHeader(http.StatusUnprocessableEntity)
	case "down":
		w.WriteHeader(http.StatusInternalServerError)
	case "moved":
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
	_, _ = io.WriteString(w, `{"id": "`+order+`", "at": "today"}`)
}

// asking records a step of the route that has a dry run, with what was kept of its reply.
func (a *auditing) asking(order, state, reason, result string) inbox.ID {
	a.tb.Helper()
	key := "planner:order:42:" + order
	id := a.step(key, "ask", `{"order":"`+order+`","sum":7}`, "\x00address "+a.target.URL+"/orders/"+order+"\nbody\n"+`{"key":"agents/`+key+`/ask","sum":7}`, state)
	if _, err := a.pool.Exec(a.tb.Context(), `UPDATE effect SET reason = NULLIF($2, ''), result = NULLIF($3, '')::bytea WHERE id = $1`, id, reason, result); err != nil {
		a.tb.Fatal(err)
	}
	return id
}

// auditResults audits the run and asks the targets.
func (a *auditing) auditResults(routes string) *replay.Audit {
	a.tb.Helper()
	results, err := a.judge(routes).Results()
	if err != nil {
		a.tb.Fatal(err)
	}
	defer results.Close()
	auditor, err := replay.NewAuditor(replay.AuditConfig{Pool: a.pool, Comparer: results.Comparison()})
	if err != nil {
		a.tb.Fatal(err)
	}
	got, err := auditor.Audit(a.tb.Context(), replay.AuditRequest{Source: "agents", Run: "42", Results: true})
	if err != nil {
		a.tb.Fatal(err)
	}
	last := 0
	if err := results.Compare(a.tb.Context(), got, func(steps int) { last = steps }); err != nil || last != len(got.Steps) {
		a.tb.Fatalf("%v, told of %d of %d steps", err, last, len(got.Steps))
	}
	return got
}

// What a target would do today is compared with what it did, where it did something.
func TestAuditAsksDryRuns(t *testing.T) {
	t.Parallel()
	a := newAuditing(t)
	type want struct{ outcome, code, match, changed string }
	wants := map[string]want{}
	for _, c := range []struct {
		order, state, reason, result string
		want                         want
	}{
		{"same", "done", "", `{"at":"then","id":"same"}`, want{"accepted", "200", "yes", ""}},
		{"another", "done", "", `{"at":"then","id":"one"}`, want{"accepted", "200", "no", "id"}},
		{"unkept", "done", "", "", want{"accepted", "200", "yes", ""}},
		{"text", "done", "", "thank you", want{"accepted", "200", "yes", ""}},
		{"refused", "done", "", `{"id":"refused"}`, want{"refused", "422", "no", ""}},
		{"down", "done", "", `{"id":"down"}`, want{"unknown", "500", "", ""}},
		{"moved", "done", "", `{"id":"moved"}`, want{"unknown", "307", "", ""}},
		{"dead", "dead", "attempts_exhausted", "", want{"accepted", "200", "", ""}},
		{"mended", "dead", "status_4xx", "", want{"accepted", "200", "no", ""}},
	} {
		a.asking(c.order, c.state, c.reason, c.result)
		wants["42:"+c.order] = c.want
	}
	a.step("planner:charge:42:pay", "pay", `{"order":"o1","sum":7}`, a.sent("o1", "planner:charge:42:pay"), "done")
	before := a.dump()
	got := a.auditResults(auditedRoutes)
	for _, s := range got.Steps {
		if s.Route == "pay" {
			if s.Result.Target != "done 200" || s.Result.DryRun != nil {
				t.Errorf("a target without a dry run: %+v", s.Result)
			}
			continue
		}
		d := s.Result.DryRun
		match, changed := "", ""
		if d.Match != nil {
			match = map[bool]string{true: "yes", false: "no"}[*d.Match]
		}
		for _, c := range d.Changes {
			changed += c.Path
		}
		if given := (want{d.Outcome, d.Code, match, changed}); given != wants[s.Key] || (d.Outcome == "unknown") != (d.Why != "") {
			t.Errorf("%s: %+v %q, want %+v", s.Key, given, d.Why, wants[s.Key])
		}
	}
	if len(got.Steps) != len(wants)+1 || got.AllMatch() {
		t.Errorf("%s", verdicts(got))
	}
	if body, _ := a.bodies.Load("same"); !strings.HasPrefix(body.(string), `PUT {"key":"dry_`) || !strings.HasSuffix(body.(string), `,"sum":7} `) {
		t.Errorf("asked %q", body)
	}
	if a.asked.Load() != 0 || a.dump() != before {
		t.Errorf("%d requests other than questions, or something was changed", a.asked.Load())
	}
}

// A dry run whose address becomes that of the work by what a caller sends is not asked. The target's own address has no
// expression, so that an attempt names none.
func TestACallerCannotTurnADryRunIntoTheWork(t *testing.T) {
	t.Parallel()
	a := newAuditing(t)
	a.step("planner:turn:42:1", "turn", `{"path":"plain"}`, "", "done")
	a.step("planner:turn:42:2", "turn", `{"path":"dry"}`, "", "done")
	got := a.auditResults(auditedRoutes)
	if d := got.Steps[0].Result.DryRun; d.Outcome != "unknown" || !strings.Contains(d.Why, "does the work") {
		t.Errorf("%+v", d)
	}
	if d := got.Steps[1].Result.DryRun; d.Outcome != "accepted" {
		t.Errorf("%+v", d)
	}
	if a.asked.Load() != 0 {
		t.Errorf("%d requests did work", a.asked.Load())
	}
}

// What today's configuration would not send is not asked about.
func TestDryRunsAreNotAskedInVain(t *testing.T) {
	t.Parallel()
	a := newAuditing(t)
	a.asking("o1", "done", "", "")
	for change, why := range map[string]string{
		`      - { name: ask, types: [order], target: asked, when: body.sum > 100 }`:     "condition",
		`      - { name: ask, types: [order], target: asked, map: { sum: body.total } }`: "body.total",
		`      - { name: ask, types: [refund], target: asked, map: { sum: body.sum } }`:  "nothing that would be sent",
		`      - { name: ask, types: [order], target: moved, map: { sum: body.sum } }`:   "",
		`      - { name: other, types: [order], target: asked, map: { sum: body.sum } }`: "",
	} {
		got := a.auditResults(change + "\n")
		d := got.Steps[0].Result.DryRun
		if (why == "") != (d == nil) || d != nil && (d.Outcome != "not asked" || !strings.Contains(d.Why, why) || d.Match != nil) {
			t.Errorf("%s: %+v", change, d)
		}
	}
	if a.questions.Load() != 0 || a.asked.Load() != 0 {
		t.Errorf("%d questions, %d other requests", a.questions.Load(), a.asked.Load())
	}
}

// A target in trouble is left alone by its breaker, as by attempts.
func TestDryRunsKeepToTheBreaker(t *testing.T) {
	t.Parallel()
	a := newAuditing(t)
	for i := range 12 {
		a.step(fmt.Sprintf("planner:order:42:%d", i), "ask", `{"order":"down","sum":7}`, "", "done")
	}
	notAsked := 0
	for _, s := range a.auditResults(auditedRoutes).Steps {
		if d := s.Result.DryRun; d.Outcome == "not asked" && strings.Contains(d.Why, "breaker") {
			notAsked++
		}
	}
	if a.questions.Load() != 10 || notAsked != 2 { // ten failures open the breaker by default
		t.Errorf("%d questions, %d not asked", a.questions.Load(), notAsked)
	}
}
