package console_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/oncegate/oncegate/internal/console"
	"github.com/oncegate/oncegate/internal/trials/npmtest"
)

// axe is a reader who looks for what some people cannot read or reach. The script of axe-core comes in through the DevTools
// protocol, since the policy of the pages permits no script but ours.
type axe struct {
	*reader
	script string
}

func newAxe(t *testing.T, r *reader) *axe {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(npmtest.Modules(t, filepath.Join("testdata", "axe"), "whether everybody can read and reach the pages of the console"), "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return &axe{r, string(script)}
}

// What axe looks for: WCAG 2.1 AA and its best practices. Contrast takes nearly all of its time.
const (
	everyRule    = `{ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }`
	noContrast   = `{ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'], rules: { 'color-contrast': { enabled: false } } }`
	contrastOnly = `{ runOnly: ['color-contrast', 'link-in-text-block'] }`
)

// violations are what axe finds on the page that is open, by rule and element.
func (a *axe) violations(rules string) (found []string) {
	a.t.Helper()
	var loaded bool
	a.do("asking for axe", chromedp.Evaluate(`typeof axe === 'object'`, &loaded))
	if !loaded {
		a.do("loading axe", chromedp.Evaluate(a.script+"\n;undefined", nil))
	}
	var text string
	a.do("running axe", chromedp.Evaluate(`axe.run(document, { resultTypes: ['violations'], ...`+rules+` }).then(r => JSON.stringify(r.violations.flatMap(v => v.nodes.map(n => v.id + ': ' + n.target.join(' ') + ': ' + n.failureSummary))))`,
		&text, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		a.t.Fatal(err)
	}
	return found
}

// everywhere runs axe on the page that is open, at two widths and in both themes. Colours depend on the theme and the layout on
// the width, so the contrast is looked at once in each theme, and everything else at each width.
func (a *axe) everywhere(page string) {
	a.t.Helper()
	for _, look := range []struct {
		theme string
		width int64
		rules string
	}{{"light", 360, noContrast}, {"dark", 360, contrastOnly}, {"light", 1280, everyRule}} {
		a.do("choosing "+look.theme, chromedp.Evaluate(`document.documentElement.dataset.theme = '`+look.theme+`'; document.querySelectorAll('details').forEach(d => d.open = true)`, nil))
		a.do("sizing", chromedp.EmulateViewport(look.width, 900))
		for _, found := range a.violations(look.rules) {
			a.t.Errorf("%s, %s at %d pixels: %s", page, look.theme, look.width, found)
		}
	}
}

// Everybody can read every page: axe finds nothing that is against WCAG 2.1 AA, at two widths and in both themes.
func TestEverybodyCanReadThePages(t *testing.T) { //nolint:paralleltest // one browser at a time: two would wait for each other
	w, r := openConsole(t)
	a := newAxe(t, r)
	r.do("opening the login", chromedp.Navigate(r.at+"/login"), chromedp.WaitVisible(`[name="token"]`, chromedp.ByQuery))
	a.everywhere("login")
	r.login(w.token)
	a.noticesPlants()
	// A page that is new is looked at as well.
	mux, seen := http.NewServeMux(), map[string]bool{}
	for _, pattern := range console.Patterns() {
		mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
	}
	for name, path := range r.pages() {
		r.open(path)
		a.everywhere(name)
		var at string
		r.do("asking where it is", chromedp.Location(&at))
		for _, address := range []string{r.at + path, at} {
			_, pattern := mux.Handler(httptest.NewRequestWithContext(t.Context(), http.MethodGet, address, nil))
			seen[pattern] = true
		}
	}
	for name, path := range documentation {
		r.open(path)
		a.everywhere(name)
	}
	for _, pattern := range console.Patterns() {
		if strings.HasPrefix(pattern, http.MethodGet+" ") && !seen[pattern] {
			t.Errorf("nobody has looked at %s: add it to the pages", pattern)
		}
	}
}

// noticesPlants fails unless axe finds a field without a label, and a text that is too faint.
func (a *axe) noticesPlants() {
	a.t.Helper()
	for rule, plant := range map[string]string{
		"label":          `const f = document.createElement('input'); document.querySelector('main').append(f)`,
		"color-contrast": `const p = document.createElement('p'); p.textContent = 'faint'; p.style.color = '#bbb'; p.style.background = '#fff'; document.querySelector('main').append(p)`,
	} {
		a.open("/nodes")
		a.do("planting", chromedp.Evaluate(`{`+plant+`}`, nil))
		if found := a.violations(everyRule); !slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, rule+":") }) {
			a.t.Errorf("axe does not notice what is against %s; it found %q", rule, found)
		}
	}
}

// reachScript lists what a person can act on that is on the page, each by a number.
const reachScript = `(() => {
	document.querySelectorAll('details').forEach(d => d.open = true)
	const all = [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary, pre[tabindex]')]
		.filter(e => !e.disabled && (e.matches('.skip') || e.checkVisibility({ visibilityProperty: true })))
	all.forEach((e, i) => { e.dataset.reach = i })
	document.activeElement.blur()
	return all.map(e => e.outerHTML.slice(0, 120))
})()`

// focusScript says which of them has the focus, and what is wrong with how that is shown.
const focusScript = `(() => {
	const e = document.activeElement, at = e.dataset ? e.dataset.reach : undefined
	if (at === undefined) return { at: -1, wrong: '' }
	const style = getComputedStyle(e), box = e.getBoundingClientRect()
	let wrong = ''
	if (style.outlineStyle === 'none' || parseFloat(style.outlineWidth) < 1) wrong = 'the focus is not visible'
	else if (box.width < 1 || box.height < 1) wrong = 'it has no size'
	else if (box.bottom <= 0 || box.right <= 0 || box.left >= innerWidth || box.top >= innerHeight) wrong = 'it is outside of the window'
	else {
		const part = [...e.getClientRects()][0], over = document.elementFromPoint(part.left + part.width / 2, part.top + Math.min(part.height / 2, 10))
		if (over && over !== e && !e.contains(over) && !over.contains(e)) wrong = 'it is hidden by ' + over.outerHTML.slice(0, 80)
	}
	return { at: Number(at), wrong }
})()`

// Everything that a page offers is reached with the Tab key, and shows that it has the focus. The first stop leads past the menu.
func TestEverybodyCanReachThePages(t *testing.T) { //nolint:paralleltest // one browser at a time: two would wait for each other
	w, r := openConsole(t)
	r.login(w.token)
	r.do("asking for less motion", // so that a page does not still scroll when the next key comes
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}}))
	for name, path := range r.pages() {
		r.open(path)
		r.do("sizing", chromedp.EmulateViewport(1280, 900))
		var all []string
		r.do("listing what can be reached", chromedp.Evaluate(reachScript, &all))
		reached := map[int]bool{}
		for range len(all) + 3 {
			var focus struct {
				At    int
				Wrong string
			}
			r.do("pressing Tab", chromedp.KeyEvent("\t"), chromedp.Evaluate(focusScript, &focus))
			if focus.At >= 0 && focus.Wrong != "" {
				t.Errorf("%s: %s: %s", name, all[focus.At], focus.Wrong)
			}
			if focus.At >= 0 {
				if len(reached) == 0 && !strings.Contains(all[focus.At], "skip") {
					t.Errorf("%s: the first stop is %s and leads not past the menu", name, all[focus.At])
				}
				reached[focus.At] = true
			}
		}
		for i, element := range all {
			if !reached[i] {
				t.Errorf("%s: Tab does not come to %s", name, element)
			}
		}
	}
	var at string
	r.open("/events")
	r.do("skipping the menu", chromedp.KeyEvent("\t"), chromedp.KeyEvent("\r"), chromedp.KeyEvent("\t"),
		chromedp.Evaluate(`document.activeElement.closest('main') ? 'main' : document.activeElement.outerHTML`, &at))
	if at != "main" {
		t.Errorf("past the menu is %s, and not the content", at)
	}
}
