package console_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// chromium finds the browser, or says that its tests do not run.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("REQUIRE_CHROMIUM") != "" {
		t.Fatal("there is no Chromium, and REQUIRE_CHROMIUM is set")
	}
	t.Skip("there is no Chromium: install it to have the console tried in a browser")
	return ""
}

// browser starts a browser that talks to this machine alone.
func browser(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium(t)), chromedp.WindowSize(1280, 900),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), chromedp.Flag("disable-gpu", true), chromedp.WSURLReadTimeout(limit))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's sandbox does not run as root
	}
	allocator, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 8*limit)
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx); err != nil { // starts it, for as long as this context lasts
		t.Fatal(err)
	}
	return ctx
}

// reader is somebody at a browser.
type reader struct {
	t   *testing.T
	ctx context.Context
	at  string
}

func (r *reader) do(what string, actions ...chromedp.Action) {
	r.t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.ctx, limit)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		var text string
		_ = chromedp.Run(r.ctx, chromedp.Text("body", &text, chromedp.ByQuery))
		r.t.Fatalf("%s: %v, after %s; the page says:\n%s", what, err, time.Since(began), text)
	}
}

// open opens a page of the console.
func (r *reader) open(path string) {
	r.t.Helper()
	r.do("opening "+path, chromedp.Navigate(r.at+path), chromedp.WaitVisible("main", chromedp.ByQuery))
}

// text is what the page shows; nothing while the browser goes to another one.
func (r *reader) text() string {
	r.t.Helper()
	var text string
	ctx, cancel := context.WithTimeout(r.ctx, limit)
	defer cancel()
	if err := chromedp.Run(ctx, chromedp.Evaluate(`document.querySelector('main')?.innerText ?? ''`, &text)); err != nil {
		return ""
	}
	return text
}

// wants fails unless the page comes to show all texts.
func (r *reader) wants(texts ...string) {
	r.t.Helper()
	deadline := time.Now().Add(limit)
	for {
		shown, missing := r.text(), ""
		for _, text := range texts {
			if !strings.Contains(shown, text) {
				missing = text
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("the page does not show %q:\n%s", missing, shown)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// follow follows the link with the text, which leads to another page, and waits until that is there.
func (r *reader) follow(text string) {
	r.t.Helper()
	link := `//main//a[contains(., "` + text + `")]`
	r.do("following "+text, chromedp.Evaluate(`window.before = true`, nil), chromedp.Click(link, chromedp.BySearch))
	deadline := time.Now().Add(limit)
	for {
		var arrived bool
		err := chromedp.Run(r.ctx, chromedp.Evaluate(`!window.before && document.querySelector('footer') !== null`, &arrived))
		if err == nil && arrived {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s leads nowhere: %v", text, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// decide opens a folded form, fills it in and sends it.
func (r *reader) decide(action, reason, word string) {
	r.t.Helper()
	form := `form[action$="` + action + `"]`
	var open bool
	r.do("opening the form "+action, chromedp.Evaluate(`(()=>{const d=document.querySelector('`+form+`').closest('details');if(d)d.open=true;return true})()`, &open))
	r.do("filling in "+action,
		chromedp.SendKeys(form+` [name="reason"]`, reason, chromedp.ByQuery), chromedp.SendKeys(form+` [name="confirm"]`, word, chromedp.ByQuery),
		chromedp.Click(form+` button`, chromedp.ByQuery), chromedp.WaitVisible(`.notice.good`, chromedp.ByQuery))
}

// login logs in by the token that it types.
func (r *reader) login(token string) {
	r.t.Helper()
	r.do("logging in", chromedp.Navigate(r.at+"/"), chromedp.WaitVisible(`[name="token"]`, chromedp.ByQuery), chromedp.SendKeys(`[name="token"]`, token, chromedp.ByQuery),
		chromedp.Click(`form[action="/login"] button`, chromedp.ByQuery), chromedp.WaitVisible("#menu", chromedp.ByQuery))
}

// unharmed fails if anything of an attack has run.
func (r *reader) unharmed() {
	r.t.Helper()
	var attacked bool
	r.do("looking for an attack", chromedp.Evaluate(`window.attacked === 1 || document.querySelectorAll('main img, main script, main b').length > 0`, &attacked))
	if attacked {
		r.t.Error("a script of a sender ran, or its markup is on the page")
	}
}

// journey goes from the start to the cause of a dead letter, and after that is mended to its replay, by what the pages
// offer alone. It types only what a page asks for.
func (r *reader) journey(w *world) {
	r.t.Helper()
	r.do("going to the start", chromedp.Click("a.brand", chromedp.ByQuery), chromedp.WaitVisible(".tiles", chromedp.ByQuery))
	r.follow("dead letters")
	r.wants("By cause", "Mend the target")
	r.follow("evt_refund_2")
	r.wants("billing → billing did not happen. The target refused the request with 422.", "no such account")
	r.follow("All attempts of billing")
	r.wants("The target refused the request with 422.", "Then plan a replay")

	w.mended.Store(true)
	r.follow("Plan a replay of this effect")
	r.do("planning", chromedp.Click(`form[action="/replays"] button`, chromedp.ByQuery), chromedp.WaitVisible("#run", chromedp.ByQuery))
	r.wants("1 item would be carried out", "sent again under its key")
	var word string
	r.do("reading the word to type", chromedp.Evaluate(`document.querySelector('form[action$="/run"]').innerText.match(/Type ([0-9a-f]+) to confirm/)[1]`, &word))
	r.decide("/run", "the account was made", word)
	r.wants("1 of 1")
	w.until(r.t, 2, `SELECT count(*) FROM effect WHERE state = 'dead'`)
	r.follow("billing → billing")
	r.wants("done", "Attempt 1")
}

// Somebody who only has the console finds what happened, mends it and replays it.
func TestPeopleDecideInABrowser(t *testing.T) { //nolint:paralleltest // one browser at a time: two would wait for each other
	w, r := openConsole(t)
	r.login(w.token)
	r.wants("Needs you", "dead letters", "unknown outcome", "conflict")

	r.do("searching", chromedp.SendKeys("#q", "stripe/evt_paid\r", chromedp.ByQuery), chromedp.WaitVisible("#timeline", chromedp.ByQuery))
	r.wants("evt_paid", "Received and recorded", "ledger → ledger", "9007199254740993", "1 duplicate was blocked")
	if shown := r.text(); strings.Contains(shown, "ada@example.com") {
		t.Error("a masked member is shown before it is revealed")
	}

	r.journey(w)
	r.do("going to the start", chromedp.Click("a.brand", chromedp.ByQuery), chromedp.WaitVisible(".tiles", chromedp.ByQuery))
	r.follow("dead letters")
	r.follow("Plan a replay of these")
	r.do("planning", chromedp.Click(`form[action="/replays"] button`, chromedp.ByQuery), chromedp.WaitVisible("#run", chromedp.ByQuery))
	r.wants("sent again under its key")
	var digest string
	r.do("reading the digest", chromedp.Value(`[name="digest"]`, &digest, chromedp.ByQuery))
	r.decide("/run", "the account was made", digest[:8])
	r.wants("2 of 2")
	w.until(t, 0, `SELECT count(*) FROM effect WHERE state = 'dead'`)

	r.open("/unknown")
	r.follow("charge → charge")
	r.open("/effects?state=indeterminate")
	r.follow("charge → charge")
	r.do("choosing", chromedp.WaitReady("#done", chromedp.ByQuery))
	r.decide("/resolve", "the bank has it", "done")
	r.wants("done")

	r.open("/streams?gap=true")
	r.follow("o-7")
	r.wants("waits for a number that did not come")
	r.decide("/skip", "number 2 was never sent", "skip")
	w.until(t, 0, `SELECT count(*) FROM stream WHERE gap_since IS NOT NULL`)

	r.open("/conflicts")
	r.follow("evt_paid")
	r.wants("data.object.amount")
	r.decide("/admit", "the second payload is right", "admit")
	r.wants("admitted")

	for _, label := range []string{"o-7", "order%3Do-7"} {
		r.open("/find?q=" + label)
		r.wants("evt_order_1", "evt_order_3")
	}

	r.open("/find?q=evt_hostile")
	r.wants("evt_hostile", `\u202egnp.exe\u2066`, "(masked)")
	r.unharmed()
	for _, view := range []string{"raw", "hex", "pretty"} {
		r.open("/find?q=stripe/evt_hostile")
		r.do("revealing as "+view, chromedp.Click(`button[value="`+view+`"]`, chromedp.ByQuery), chromedp.WaitVisible("main pre", chromedp.ByQuery))
		r.wants("Nothing is masked")
		r.unharmed()
	}
	r.open("/refusals")
	r.follow("no live secret matches")
	r.wants("What to do", "Compare the secret of this source")
	r.follow("Verify the kept refusals")
	r.wants("Nothing verifies yet")
	r.follow("Where the secret is read from")
	r.wants("/stripe-secret")
	r.unharmed()
}

// The pages are drawn for people to look at, if a folder for them is named; with many sources and as many events as are asked for, if
// a number is. How long the server took for each page is printed.
func TestScreenshots(t *testing.T) { //nolint:paralleltest // one browser at a time: two would wait for each other
	folder := os.Getenv("SCREENSHOTS")
	if folder == "" {
		t.Skip("SCREENSHOTS names no folder")
	}
	w, r := openScreenshots(t)
	r.do("drawing the page for logging in", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(r.at+"/login"))
	shoot(r, filepath.Join(folder, "login.png"))
	r.login(w.token)
	paths := r.pages()
	maps.Copy(paths, documentation)
	for _, theme := range []string{"light", "dark"} {
		r.open("/nodes")
		r.do("choosing "+theme, chromedp.EmulateViewport(1440, 900), chromedp.Click(`button[name="theme"][value="`+theme+`"]`, chromedp.ByQuery), chromedp.WaitReady("html[data-theme="+theme+"]", chromedp.ByQuery))
		for _, width := range []int64{360, 768, 1440} {
			r.do("sizing", chromedp.EmulateViewport(width, 900))
			for _, name := range slices.Sorted(maps.Keys(paths)) {
				r.open(paths[name])
				for _, wrong := range r.list(`document.documentElement.scrollWidth > innerWidth + 1 ? ['wider than the window'] : []`) {
					t.Errorf("%s at %d pixels is %s", name, width, wrong)
				}
				if theme == "light" && width == 1440 {
					took := r.list(`[String(Math.round(performance.getEntriesByType('navigation')[0].responseStart - performance.getEntriesByType('navigation')[0].requestStart))]`)
					t.Logf("%-16s %4s ms", name, took[0])
				}
				shoot(r, filepath.Join(folder, fmt.Sprintf("%s-%d-%s.png", name, width, theme)))
			}
		}
	}
}

// documentation are pages of the documentation. Their tables are text, so that the rules for the rows of lists do not apply to them.
var documentation = map[string]string{
	"docs": "/docs", "docs-page": "/docs/guides/production", "docs-tables": "/docs/reference/configuration", "docs-search": "/docs?q=breaker", "docs-nothing": "/docs/nowhere",
}

// openScreenshots starts the world that is drawn.
func openScreenshots(t *testing.T) (*world, *reader) {
	t.Helper()
	text := os.Getenv("SCREENSHOTS_EVENTS")
	if text == "" {
		return openConsole(t)
	}
	events, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("SCREENSHOTS_EVENTS is no number: %s", text)
	}
	ctx := browser(t)
	w := newLargeWorld(t, events)
	return w, &reader{t: t, ctx: ctx, at: w.private.URL}
}

// pages are the addresses of all pages by a name, of a console that is filled. It plans a replay, to have one.
func (r *reader) pages() map[string]string {
	r.t.Helper()
	paths := map[string]string{
		"start": "/", "overview": "/overview", "events": "/events", "event": "/find?q=stripe/evt_paid", "effects": "/effects", "dead": "/dead", "discard": "/dead/discard", "unknown": "/unknown",
		"conflicts": "/conflicts", "refusals": "/refusals", "streams": "/streams", "replays": "/replays", "replay-new": "/replays/new?source=stripe", "sources": "/sources", "targets": "/targets", "target": "/targets/billing", "route": "/routes/stripe/billing",
		"source": "/sources/stripe", "source-waiting": "/sources/quiet", "providers": "/providers", "provider": "/providers/stripe", "operations": "/operations", "suppressions": "/suppressions",
		"retention": "/retention", "notifications": "/notifications", "nodes": "/nodes", "audit": "/audit", "access": "/access", "not-found": "/nowhere", "hostile": "/find?q=evt_hostile",
		"reverify": "/refusals/reverify?source=stripe", "acknowledge": "/refusals/acknowledge", "dismiss": "/conflicts/dismiss", "resolve": "/unknown/resolve", "prune": "/retention/prune", "clear": "/routes/clear?source=stripe&route=billing", "outbox": "/outbox/1", "runs": "/runs?label=order%3Do-7", "labelled": "/events?label=order%3Do-7",
	}
	var one string
	for name, from := range map[string]string{"effect-dead": "/effects?state=dead", "effect-unknown": "/effects?state=indeterminate", "conflict": "/conflicts", "refusal": "/refusals", "stream": "/streams"} {
		r.open(from)
		rows := "main tbody a"
		if name == "refusal" {
			rows = "#refusals tbody a" // below the causes
		}
		r.do("finding one", chromedp.AttributeValue(rows, "href", &one, nil, chromedp.ByQuery))
		if name == "stream" {
			r.open(from + "?gap=true")
			r.do("finding one", chromedp.AttributeValue("main tbody a", "href", &one, nil, chromedp.ByQuery))
		}
		paths[name] = one
	}
	r.open("/events?source=stripe")
	var all []string
	r.do("finding two", chromedp.Evaluate(`[...document.querySelectorAll('main tbody a[href^="/events/"]')].map(a => a.getAttribute('href').slice(8))`, &all))
	paths["compare"] = "/compare?first=" + all[len(all)-1] + "&second=" + all[len(all)-2]
	r.open("/replays/new?all=true")
	r.do("planning", chromedp.Click(`form[action="/replays"] button`, chromedp.ByQuery), chromedp.WaitVisible("#plan", chromedp.ByQuery), chromedp.Location(&one))
	paths["replay"] = strings.TrimPrefix(one, r.at)
	return paths
}

func shoot(r *reader, file string) {
	r.t.Helper()
	var picture []byte
	r.do("drawing "+file, chromedp.FullScreenshot(&picture, 100))
	if err := os.WriteFile(file, picture, 0o600); err != nil {
		r.t.Fatal(err)
	}
}
