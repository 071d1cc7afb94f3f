package console_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// attempts notes what a page tried and may not: dialogs, and what the policy refused.
type attempts struct {
	mu    sync.Mutex
	found []string
}

func (a *attempts) add(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.found = append(a.found, what)
}

// take gives what was noted, and forgets it.
func (a *attempts) take() (found []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found, a.found = a.found, nil
	return found
}

// watch notes what pages try. The script that hears of refusals comes in through the DevTools protocol.
func watch(r *reader) *attempts {
	r.t.Helper()
	a := &attempts{}
	chromedp.ListenTarget(r.ctx, func(event any) {
		switch event := event.(type) {
		case *page.EventJavascriptDialogOpening:
			a.add("a dialog says " + event.Message)
			go func() { _ = chromedp.Run(r.ctx, page.HandleJavaScriptDialog(false)) }() // else nothing goes on
		case *runtime.EventBindingCalled:
			a.add("the policy refuses " + event.Payload)
		}
	})
	r.do("listening", runtime.AddBinding("refusedByPolicy"), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(`document.addEventListener('securitypolicyviolation', e => refusedByPolicy(e.violatedDirective + ' ' + e.blockedURI))`).Do(ctx)
		return err
	}))
	return a
}

// nothingRan fails if anything of an attack ran, or tried to.
func (a *attempts) nothingRan(r *reader, where string) {
	r.t.Helper()
	var attacked bool
	r.do("looking for an attack", chromedp.Evaluate(`window.attacked === 1 || document.querySelectorAll('main img, main script, main b, main iframe, main object').length > 0`, &attacked))
	if attacked {
		r.t.Errorf("%s: a script of a sender ran, or its markup is on the page", where)
	}
	for _, found := range a.take() {
		r.t.Errorf("%s: %s", where, found)
	}
	var shown string
	r.do("reading the page", chromedp.Evaluate(`document.body.innerText`, &shown))
	checkVisible(r.t, where, shown)
}

const script = `"><script>window.attacked=1;alert(1)</script><img src=x onerror="window.attacked=1;alert(1)"><svg onload=alert(1)>`

// Payloads of every hostile kind are shown laid out, as they came, in hex and as differences, and nothing in them runs.
func TestNothingOfAHostilePayloadRuns(t *testing.T) { //nolint:paralleltest // one browser at a time: two would wait for each other
	if testing.Short() {
		t.Skip("it starts a browser")
	}
	ctx := browser(t)
	w := newWorld(t)
	quoted := strings.ReplaceAll(script, `"`, `\"`)
	events := map[string]string{
		"evt_large":  `,"data":"` + strings.Repeat(quoted, (1<<20-400)/len(quoted)) + `"`,
		"evt_hidden": `,"data":{"nul\u0000` + quoted + `":"\u0000","bidi` + "\u202e\u2066" + `":"` + "\u202egnp.exe\u2069\u200b\ufeff" + `","` + quoted + `":["javascript:alert(1)","` + "\x7f\u0085\u2028" + `"]}`,
		"evt_deep":   `,"data":` + strings.Repeat(`{"`+quoted+`":[`, 24) + `"` + quoted + `"` + strings.Repeat(`]}`, 24),
		"evt_deeper": `,"data":` + strings.Repeat(`[`, 4000) + strings.Repeat(`]`, 4000),
	}
	for id, more := range events {
		w.deliver(t, event(id, "invoice.paid", more), http.StatusOK)
	}
	w.deliver(t, event("evt_hidden", "invoice."+quoted, `,"data":{"`+quoted+`":"`+quoted+`2"}`), http.StatusOK)
	// What is no event is refused, and kept whole for somebody to look at.
	refused := []string{
		"not JSON " + script, "nul \x00 " + script + " \x00", "invalid \xff\xfe\xc0\x80 " + script, "bidi \u202e\u2066 " + script,
		`{"unfinished": "` + quoted, strings.Repeat("{\"a\":[", 30_000) + script, strings.Repeat(script, (1<<20)/len(script)),
	}
	for _, body := range refused {
		w.deliver(t, body, http.StatusUnauthorized)
	}
	w.until(t, len(refused), `SELECT count(*) FROM refusal WHERE body IS NOT NULL`)
	w.until(t, 1, `SELECT count(*) FROM conflict`)

	r := &reader{t: t, ctx: ctx, at: w.private.URL}
	r.login(w.token)
	tried := watch(r)
	r.noticesAttacks(tried)

	w.until(t, len(events), `SELECT count(*) FROM inbox_event`)
	paths := map[string]string{}
	for kind, query := range map[string]string{
		"events": `SELECT id::text FROM inbox_event ORDER BY id`, "conflicts": `SELECT id::text FROM conflict`, "refusals": `SELECT id::text FROM refusal ORDER BY id`,
	} {
		rows, err := w.pool.Query(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; rows.Next(); n++ {
			var id string
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			paths[fmt.Sprintf("%s %d", kind, n)] = "/" + kind + "/" + id
		}
		if rows.Err() != nil {
			t.Fatal(rows.Err())
		}
	}
	for name, path := range paths {
		r.open(path)
		tried.nothingRan(r, name)
		for _, view := range []string{"pretty", "raw", "hex"} {
			r.open(path)
			r.do("revealing as "+view, chromedp.Click(`button[value="`+view+`"]`, chromedp.ByQuery), chromedp.WaitVisible("main pre", chromedp.ByQuery))
			r.wants("Nothing is masked")
			tried.nothingRan(r, name+" as "+view)
		}
		if strings.HasPrefix(path, "/conflicts/") {
			r.open(path)
			r.do("showing what differs", chromedp.Click(`form[action$="/changes"] button`, chromedp.ByQuery), chromedp.WaitVisible("table.changes", chromedp.ByQuery))
			tried.nothingRan(r, name+" as changes")
		}
	}
	var first, second string
	// Two that are compared member by member: evt_deeper is nested more deeply than that.
	if err := w.pool.QueryRow(t.Context(), `SELECT min(id::text), max(id::text) FROM inbox_event WHERE event_id IN ('evt_hidden', 'evt_deep')`).Scan(&first, &second); err != nil {
		t.Fatal(err)
	}
	r.open("/compare?first=" + first + "&second=" + second)
	r.wants("data")
	tried.nothingRan(r, "the differences of two events")
	for _, path := range []string{"/events", "/refusals", "/conflicts", "/audit"} {
		r.open(path)
		tried.nothingRan(r, path)
	}
}

// noticesAttacks fails unless a dialog, and what the policy refuses, are noticed.
func (r *reader) noticesAttacks(tried *attempts) {
	r.t.Helper()
	r.open("/nodes")
	r.do("planting an attack", chromedp.Evaluate(`{const i = document.createElement('img'); i.src = 'x'; i.setAttribute('onerror', 'alert(1)'); document.querySelector('main').append(i); setTimeout(() => alert(2), 0)}`, nil))
	deadline := time.Now().Add(limit)
	for {
		tried.mu.Lock()
		all := strings.Join(tried.found, "\n")
		tried.mu.Unlock()
		if strings.Contains(all, "a dialog says 2") && strings.Contains(all, "the policy refuses") {
			break
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("a planted attack is not noticed, only %q", all)
		}
		<-time.After(20 * time.Millisecond)
	}
	tried.take()
}
