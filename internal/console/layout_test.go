package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// layoutScript says what is wrong with how the page that is open is laid out. Words are what lies between spaces and punctuation, so
// that a break behind a hyphen is none inside a word; a payload is shown as it is.
const layoutScript = `(() => {
	const wrong = [], cards = innerWidth < 520, wide = document.documentElement.scrollWidth
	if (wide > innerWidth + 1) wrong.push('it is ' + wide + ' pixels wide')
	for (const row of document.querySelectorAll('main table:not(.changes) tbody tr')) {
		const height = row.getBoundingClientRect().height, isCard = getComputedStyle(row).display === 'block'
		if (isCard !== cards) wrong.push('a row is ' + (isCard ? 'a card' : 'no card'))
		if (!cards && height > 36) wrong.push('a row is ' + height + ' pixels high: ' + row.innerText)
	}
	if (innerWidth >= 1440) {
		const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT), range = document.createRange()
		for (let text; (text = texts.nextNode());) {
			if (text.parentElement.closest('pre') || !text.parentElement.checkVisibility()) continue
			for (const word of text.data.matchAll(/[\p{L}\p{N}_]+/gu)) {
				range.setStart(text, word.index)
				range.setEnd(text, word.index + word[0].length)
				const lines = new Set([...range.getClientRects()].map(r => Math.round(r.top)))
				if (lines.size > 1 && word[0].length < 60) wrong.push('a word is broken: ' + word[0])
			}
		}
	}
	for (const time of document.querySelectorAll('main td time')) {
		if (!/ago$|^in |^just now$/.test(time.textContent) || !/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/.test(time.title)) wrong.push('a time in a table is ' + time.outerHTML)
	}
	for (const fold of document.querySelectorAll('main details.fold')) {
		if (fold.open) wrong.push('a filter is open')
		for (const field of fold.querySelectorAll('input:is([name=source], [name=route], [name=target], [name=state], [name=reason])')) wrong.push(field.name + ' is typed and not chosen')
		for (const field of fold.querySelectorAll('select[name=source]')) if (field.options.length !== 22) wrong.push('there are ' + field.options.length + ' sources to choose from')
		for (const field of fold.querySelectorAll('input[name=type]')) if (!field.list || field.list.options.length < 6) wrong.push('no types are offered')
	}
	return [...new Set(wrong)].slice(0, 5)
})()`

// With many sources and long names every page fits every window: rows are one line, or cards on a telephone, no word is
// broken on a desktop, and filters are folded and offer what there is.
func TestPagesAreLaidOut(t *testing.T) { //nolint:paralleltest // one browser at a time: two would wait for each other
	if testing.Short() {
		t.Skip("it starts a browser")
	}
	ctx := browser(t)
	w := newLargeWorld(t, 2000)
	r := &reader{t: t, ctx: ctx, at: w.private.URL}
	r.login(w.token)
	paths := r.pages()
	for name, path := range paths {
		r.open(path)
		for _, width := range []int64{360, 530, 768, 1440} {
			r.do("sizing", chromedp.EmulateViewport(width, 900))
			for _, wrong := range r.list(layoutScript) {
				t.Errorf("%s at %d pixels: %s", name, width, wrong)
			}
		}
	}
	for _, window := range []string{"1h", "24h", "7d"} {
		r.open("/overview?window=" + window)
		if high := r.list(`document.documentElement.scrollHeight > 900 ? ['' + document.documentElement.scrollHeight] : []`); len(high) > 0 {
			t.Errorf("the overview of %s is %s pixels high, and a screen has 900", window, high[0])
		}
	}
	for _, plant := range []struct{ script, says string }{
		{`document.querySelector('h1').style.width = '1rem'`, "a word is broken"},
		{`document.querySelector('td .line').style.height = '60px'`, "pixels high"},
		{`document.querySelector('h1').style.width = '1500px'`, "pixels wide"},
	} {
		r.open("/events")
		if found := r.list(`(() => { ` + plant.script + `; return ` + layoutScript + ` })()`); !strings.Contains(strings.Join(found, "\n"), plant.says) {
			t.Errorf("%s is not noticed: %q", plant.script, found)
		}
	}
}

// list evaluates a script that returns texts.
func (r *reader) list(script string) (out []string) {
	r.t.Helper()
	r.do("evaluating", chromedp.Evaluate(script, &out))
	return out
}

// What runs comes first on the page of a source, and what connects its sender below it; before the first event it is the other way
// round. The start page of a new installation leads to a source.
func TestOnboardingHasItsPlace(t *testing.T) { //nolint:paralleltest // one browser at a time: two would wait for each other
	if testing.Short() {
		t.Skip("it starts a browser")
	}
	ctx := browser(t)
	w := newWorld(t)
	r := &reader{t: t, ctx: ctx, at: w.private.URL}
	r.login(w.token)
	r.wants("What to do next", "Connect stripe")
	r.follow("Connect stripe")
	const above = `document.querySelector('#address').getBoundingClientRect().top < document.querySelector('#events').getBoundingClientRect().top ? ['above'] : []`
	if len(r.list(above)) == 0 {
		t.Error("the source waits for its first event, and the address is below")
	}
	w.fill(t)
	r.open("/sources/stripe")
	if len(r.list(above)) != 0 {
		t.Error("the source has events, and they are below the address")
	}
}
