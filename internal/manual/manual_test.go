package manual_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/oncegate/oncegate/docs"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/manual"
)

const repository = "https://example.com/blob/main/"

func read(t *testing.T, files map[string]string) (*manual.Manual, error) {
	t.Helper()
	all := fstest.MapFS{}
	for name, content := range files {
		all[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return manual.New(all, "/docs", repository)
}

var index = "# The index\n\nHello.\n\n**Start**\n\n- [One](guides/one.md): first.\n\n**More**\n\n| q | p |\n| --- | --- |\n| Two? | [Two](two.md#part-b) and [One](guides/one.md) |\n"

func TestPages(t *testing.T) {
	t.Parallel()
	m, err := read(t, map[string]string{
		"README.md":        index,
		"guides/one.md":    "# One `page`\n\nSee [two](../two.md#part-b), [rules](rules.yml), [code](../../inbox/doc.go), [dir](../../x/y), [web](https://example.org/a.md), [here](#a-part).\n\n<!-- setup\nsecret\n-->\n\n## A part\n\n### Deeper\n\n```sh\necho <b>\n```\n\n| key | it's |\n| --- | --- |\n| a | `b` |\n",
		"two.md":           "# Two\n\n## Part B\n\nText.\n",
		"guides/rules.yml": "rules",
	})
	if err != nil {
		t.Fatal(err)
	}
	groups := m.Groups()
	if len(groups) != 2 || groups[0].Title != "Start" || groups[1].Title != "More" || len(groups[1].Pages) != 1 || groups[1].Pages[0].Title != "Two" {
		t.Errorf("groups: %+v", groups)
	}
	one := m.Page("guides/one")
	if one == nil || one.Title != "One page" || len(one.Headings) != 1 || one.Headings[0] != (manual.Heading{Anchor: "a-part", Text: "A part"}) {
		t.Fatalf("the page: %+v", one)
	}
	for _, want := range []string{
		`href="/docs/two#part-b"`, `href="/docs/guides/rules.yml"`, `href="` + repository + `inbox/doc.go"`, `href="` + repository + `x/y"`,
		`href="https://example.org/a.md"`, `href="#a-part"`, `echo &lt;b&gt;`, `<h3 id="deeper">`,
		`<td data-label="key">a</td>`, `<td data-label="it's"><code>b</code></td>`, `<table tabindex="0">`, `<pre tabindex="0">`,
	} {
		if !strings.Contains(one.HTML, want) {
			t.Errorf("the page lacks %s:\n%s", want, one.HTML)
		}
	}
	if strings.Contains(one.HTML, "secret") || strings.Contains(one.HTML, "<h1") {
		t.Errorf("the page has a comment or its title:\n%s", one.HTML)
	}
	if m.Page("") == nil || m.Page("guides/three") != nil {
		t.Error("the index is missing, or there is a page that nobody wrote")
	}
	if content, ok := m.File("guides/rules.yml"); !ok || string(content) != "rules" {
		t.Errorf("the file: %q, %v", content, ok)
	}
	for _, name := range []string{"two.md", "../two.md", "/two.md", "nothing.yml"} {
		if _, ok := m.File(name); ok {
			t.Errorf("%s is served as a file", name)
		}
	}
}

func TestAPageThatTheIndexLacksIsRefused(t *testing.T) {
	t.Parallel()
	_, err := read(t, map[string]string{"README.md": index, "guides/one.md": "# One\n", "two.md": "# Two\n", "three.md": "# Three\n"})
	if err == nil || !strings.Contains(err.Error(), "README.md does not list three") {
		t.Errorf("got %v", err)
	}
	if _, err := read(t, map[string]string{"one.md": "# One\n"}); err == nil || !strings.Contains(err.Error(), "has no README.md") {
		t.Errorf("got %v", err)
	}
}

// A page below another one is found by the links of that page, and need not be in the index.
func TestAPageListsThePagesBelowIt(t *testing.T) {
	t.Parallel()
	m, err := read(t, map[string]string{
		"README.md": index, "guides/one.md": "# One\n\nSee [b](one/b.md#x), [a](one/a.md), [b](one/b.md) and [two](../two.md).\n", "guides/one/a.md": "# A\n", "guides/one/b.md": "# B\n\n## X\n",
		"two.md": "# Two\n\n## Part B\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	one, a, b := m.Page("guides/one"), m.Page("guides/one/a"), m.Page("guides/one/b")
	if !slices.Equal(one.Children, []*manual.Page{b, a}) || a.Parent != one || b.Parent != one {
		t.Errorf("children %v, parents %v and %v", one.Children, a.Parent, b.Parent)
	}
	if one.Parent != nil || m.Page("two").Parent != nil || len(m.Groups()[0].Pages) != 1 || len(m.Groups()[1].Pages) != 1 {
		t.Errorf("the groups changed: %+v", m.Groups())
	}
	_, err = read(t, map[string]string{"README.md": index, "guides/one.md": "# One\n", "guides/one/a.md": "# A\n", "two.md": "# Two\n\n[A](guides/one/a.md)\n"})
	if err == nil || !strings.Contains(err.Error(), "README.md does not list guides/one/a") {
		t.Errorf("a page that only another one lists: %v", err)
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	m, err := read(t, map[string]string{
		"README.md":     index,
		"guides/one.md": "# One\n\nAn apple and a pear.\n\n## Bananas\n\nNothing else: `--apple`.\n",
		"two.md":        "# Apples\n\nRed. " + strings.Repeat("word ", 200) + "Überraschung end.\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	places := func(query string) string {
		var all []string
		for _, h := range m.Search(query) {
			all = append(all, h.Page.Path+"#"+h.Anchor)
		}
		return strings.Join(all, " ")
	}
	for query, want := range map[string]string{
		"apple":                      "two# guides/one# guides/one#bananas", // in a heading first
		"APPLE  pear":                "guides/one#",
		"--apple":                    "guides/one#bananas",
		"apple plum":                 "",
		"  ":                         "",
		"überraschung":               "two#",
		strings.Repeat("ü", 5000):    "",
		"a b c d e f g h zzz yyy xx": places("a b c d e f g h"), // of more than 8 words the rest is ignored
	} {
		if got := places(query); got != want {
			t.Errorf("%.40q: %s, want %s", query, got, want)
		}
	}
	hit := m.Search("überraschung")[0]
	if hit.Match != "Überraschung" || !strings.HasSuffix(hit.Before, "word ") || hit.After != " end." || len(hit.Before) > 200 {
		t.Errorf("the part of the text: %+v", hit)
	}
}

var (
	ids   = regexp.MustCompile(`\bid="([^"]+)"`)
	links = regexp.MustCompile(`href="([^"]+)"`)
)

// Every link of our own pages leads to a page, a file and a heading that exist, in the form in which they are served.
func TestOurOwnPages(t *testing.T) {
	t.Parallel()
	m, err := manual.New(docs.Files(), "/docs", repository)
	if err != nil {
		t.Fatal(err)
	}
	pages := []*manual.Page{m.Page("")}
	for _, g := range m.Groups() {
		for _, p := range g.Pages {
			pages = append(append(pages, p), p.Children...)
		}
	}
	if len(pages) < 40 {
		t.Fatalf("only %d pages", len(pages))
	}
	checked := 0
	for _, p := range pages {
		if p.Title == "" {
			t.Errorf("/docs/%s has no title", p.Path)
		}
		for _, l := range links.FindAllStringSubmatch(p.HTML, -1) {
			address, anchor, _ := strings.Cut(l[1], "#")
			if strings.Contains(address, "://") || strings.HasPrefix(address, "mailto:") {
				continue
			}
			checked++
			to := p
			if address != "" {
				name := strings.TrimPrefix(strings.TrimPrefix(address, "/docs"), "/")
				if _, ok := m.File(name); ok {
					continue
				}
				if to = m.Page(name); to == nil {
					t.Errorf("/docs/%s links to %s, which is not served", p.Path, l[1])
					continue
				}
			}
			known := map[string]bool{"": true}
			for _, id := range ids.FindAllStringSubmatch(to.HTML, -1) {
				known[id[1]] = true
			}
			if !known[anchor] {
				t.Errorf("/docs/%s links to %s, and that page has no such heading", p.Path, l[1])
			}
		}
	}
	if checked < 200 {
		t.Errorf("only %d links", checked)
	}
}

func TestDefine(t *testing.T) {
	t.Parallel()
	m, err := read(t, map[string]string{
		"README.md":     index,
		"guides/one.md": "# One\n\n## OnceBroken\n\nIt broke.\n\n## A sentence\n\n| key | default | meaning |\n| --- | --- | --- |\n| `a.b`, `c` | | what *it* is |\n| plain | x | y |\n| **tombstone** | 1 | a key |\n",
		"two.md":        "# Two\n\nText.\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string][]manual.Field{
		"A.B":        {{Name: "meaning", Value: "what it is"}},
		"c":          {{Name: "meaning", Value: "what it is"}},
		"tombstone":  {{Name: "default", Value: "1"}, {Name: "meaning", Value: "a key"}},
		"oncebroken": {{Value: "It broke."}},
		"plain":      nil,
		"a sentence": nil,
	} {
		found := m.Define(word)
		if want == nil {
			if len(found) > 0 {
				t.Errorf("%s: %+v", word, found)
			}
			continue
		}
		if len(found) != 1 || !slices.Equal(found[0].Fields, want) || found[0].Page.Path != "guides/one" {
			t.Errorf("%s: %+v, want %+v", word, found, want)
		}
	}
	if words := m.Words(); !slices.Equal(words, []string{"a.b", "c", "oncebroken", "tombstone"}) {
		t.Errorf("words: %v", words)
	}
}

// Every word of the closed sets that programs read is explained.
func TestOurOwnWords(t *testing.T) {
	t.Parallel()
	m, err := manual.New(docs.Files(), "/docs", repository)
	if err != nil {
		t.Fatal(err)
	}
	words := []string{"oncegate_dead_effects"}
	words = append(words, reasons.All()...)
	for _, code := range control.Codes() {
		words = append(words, string(code.Code))
	}
	for _, word := range words {
		if len(m.Define(word)) == 0 {
			t.Errorf("nothing explains %s", word)
		}
	}
	if len(words) < 50 {
		t.Errorf("only %d words", len(words))
	}
}
