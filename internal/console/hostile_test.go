package console_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/net/html"

	"github.com/oncegate/oncegate/internal/control"
)

// permitted are the elements that pages are made of.
var permitted = []string{
	"html", "head", "meta", "title", "link", "script", "noscript", "body", "a", "header", "form", "label", "input", "nav", "h1", "h2", "h3", "ul", "ol", "li", "div", "p", "br", "span",
	"button", "main", "section", "footer", "time", "kbd", "dl", "dt", "dd", "code", "pre", "select", "option", "textarea", "datalist", "details", "summary",
	"table", "thead", "tbody", "tr", "th", "td", "del", "ins", "figure", "figcaption", "svg", "rect",
}

// Every text that comes from elsewhere is an attack, and every page has nothing of it but text.
func TestPagesShowAttacksAsText(t *testing.T) {
	t.Parallel()
	for _, scopes := range [][]control.Scope{{control.Admin}, {control.ReadMetadata}} {
		c := newConsole(t, filler(attack), scopes...)
		for _, path := range pagePaths() {
			query := "?q=" + strings.Repeat("%22%3E%3Cscript%3E", 2) + "&source=%22%3E%3Cscript%3E&state=%3Cb%3E&done=%3Cb%3E"
			if path == "/find" {
				query = ""
			}
			checkHostile(t, path, get(t, c, path+query).Body.String())
		}
	}
}

// checkHostile fails if a page has an element or an attribute that no page has, or shows a character that hides.
func checkHostile(t *testing.T, path, text string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	scripts := 0
	for n := range root.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "textarea" {
			checkVisible(t, path, n.Data)
		}
		if n.Type != html.ElementNode {
			continue
		}
		if !slices.Contains(permitted, n.Data) {
			t.Errorf("%s has an element %s", path, n.Data)
		}
		if n.Data == "script" {
			scripts++
		}
		for _, a := range n.Attr {
			if a.Key != "value" { // what an input sends back is as it came
				checkVisible(t, path, a.Val)
			}
			switch {
			case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "srcdoc":
				t.Errorf("%s has the attribute %s=%q", path, a.Key, a.Val)
			case a.Key == "href" || a.Key == "action" || a.Key == "src":
				if !strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "#") && !strings.HasPrefix(a.Val, "https://") && a.Val != "" || strings.HasPrefix(a.Val, "//") {
					t.Errorf("%s leads to %q", path, a.Val)
				}
			}
		}
	}
	if scripts > 1 {
		t.Errorf("%s has %d scripts, want our own alone", path, scripts)
	}
}

// checkVisible fails if a text holds a character that hides or reverses what is around it.
func checkVisible(t *testing.T, path, text string) {
	t.Helper()
	for _, c := range text {
		if c != '\n' && c != '\t' && (unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || c == unicode.ReplacementChar) {
			t.Errorf("%s shows the character %U", path, c)
			return
		}
	}
}

// The pages with attacks in every field are kept, so that a change of what they show is seen.
func TestHostilePagesAreTheGoldenOnes(t *testing.T) {
	t.Parallel()
	c := newConsole(t, filler(attack), control.Admin)
	for _, path := range pagePaths() {
		name := strings.Trim(strings.NewReplacer("/", "-", "?", "-", "=", "-", someID, "id").Replace(path), "-")
		if name == "" {
			name = "start"
		}
		file := filepath.Join("testdata", "golden", name+".html")
		got := stableAssets(get(t, c, path).Body.String())
		if os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs from %s; look at the difference, and write it with UPDATE_GOLDEN=1 go test ./internal/console -run Golden", path, file)
		}
	}
}

// Every answer says what a browser may do with it.
func TestHeadersOfEveryPage(t *testing.T) {
	t.Parallel()
	c := newConsole(t, filler(attack), control.Admin)
	for _, path := range append(pagePaths(), "/assets/none.css") {
		h := get(t, c, path).Header()
		policy := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'sha256-", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy %q lacks %q", path, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
			t.Errorf("%s: the policy is %q", path, policy)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin"} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
	}
	download := send(t, c, http.MethodPost, "/events/"+someID+"/payload", "view=download")
	for name, want := range map[string]string{
		"Content-Type": "application/octet-stream", "Content-Disposition": "attachment; filename=event-" + someID + ".bin", "X-Content-Type-Options": "nosniff",
	} {
		if got := download.Header().Get(name); got != want {
			t.Errorf("download: %s is %q, want %q", name, got, want)
		}
	}
	if download.Body.String() != attack {
		t.Error("a download is not the bytes")
	}
}
