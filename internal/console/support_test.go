package console_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/console"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/control/controltest"
)

// now is the time of the pages.
var now = time.Date(2026, 11, 23, 14, 2, 7, 0, time.UTC)

const (
	someID = controltest.SomeID

	// attack is in every text that a page shows. A page on which any part of it is more than text is broken.
	attack = "\"><script>window.attacked=1</script><img src=x onerror=window.attacked=1>'javascript:window.attacked=1\u202egnp.exe\u2066\x00\x1b[31m\u0085 {{.}} \xff"
)

// filler is a caller that answers every operation with that text.
func filler(text string) *controltest.Filler {
	return &controltest.Filler{Text: text, At: now.Add(-90 * time.Minute)}
}

// newConsole makes a console for somebody with the scopes, whose operations are carried out by caller.
func newConsole(t *testing.T, caller control.Caller, scopes ...control.Scope) *console.Console {
	t.Helper()
	c, err := console.New(console.Config{
		Caller:       func(control.Access) control.Caller { return caller },
		Authenticate: func(*http.Request) (control.Access, error) { return control.Access{Actor: "ada", Scopes: scopes}, nil },
		Logger:       slog.New(slog.DiscardHandler), Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// get asks for a page.
func get(t *testing.T, c http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	return send(t, c, http.MethodGet, path, "")
}

func send(t *testing.T, c http.Handler, method, path, form string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(form))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	answer := httptest.NewRecorder()
	c.ServeHTTP(answer, r)
	return answer
}

// pagePaths are the addresses of all pages, with something in the place of what they name.
func pagePaths() []string {
	var out []string
	for _, pattern := range console.Patterns() {
		method, path, _ := strings.Cut(pattern, " ")
		if method != http.MethodGet {
			continue
		}
		path = strings.NewReplacer("{$}", "", "{id}", someID, "{name}", "stripe", "{ref}", "7", "{source}", "stripe", "{route}", "billing").Replace(path)
		out = append(out, path)
	}
	return append(out, "/runs?label=a", "/nowhere", fmt.Sprintf("/events/%s", "nonsense"))
}

var hashes = regexp.MustCompile(`(/assets/[a-z]+\.)[0-9a-f]{16}|sha256-[^"]+`)

// stableAssets leaves out what changes with every change of the style or the script.
func stableAssets(page string) string { return hashes.ReplaceAllString(page, "${1}HASH") }
