package console_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/console"
	"github.com/oncegate/oncegate/internal/control"
)

// The documentation is served without a login, on pages as protected as all others.
func TestTheDocumentationIsServed(t *testing.T) {
	t.Parallel()
	c, err := console.New(console.Config{
		Caller: func(control.Access) control.Caller { return filler(attack) },
		Authenticate: func(*http.Request) (control.Access, error) {
			t.Error("the documentation asks who reads it")
			return control.Access{}, &control.Problem{Code: control.CodeUnauthorized}
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/docs":                                {http.StatusOK, `<a href="/docs/guides/order">`},
		"/docs/":                               {http.StatusOK, "Oncegate documentation"},
		"/docs/guides/order":                   {http.StatusOK, `aria-current="page">Order</a>`},
		"/docs/reference/commands/events":      {http.StatusOK, `<p class="back"><a href="/docs/reference/commands">Command reference</a></p>`},
		"/docs/reference/commands/dead":        {http.StatusOK, `<a href="/docs/reference/commands" aria-current="true">`},
		"/docs/guides/alerts.yml":              {http.StatusOK, "groups:"},
		"/docs/guides/nowhere":                 {http.StatusNotFound, "There is no such page"},
		"/docs/docs.go":                        {http.StatusNotFound, "There is no such page"},
		"/docs?q=advisory+lock":                {http.StatusOK, "<mark>advisory</mark>"},
		"/docs?q=%3Cscript%3Ealert(1)":         {http.StatusOK, "No section has all words of <q>&lt;script&gt;alert(1)</q>"},
		"/docs?q=" + strings.Repeat("a", 5000): {http.StatusOK, "No section"},
	} {
		answer := get(t, c, path)
		if answer.Code != want.status || !strings.Contains(answer.Body.String(), want.text) {
			t.Errorf("%.40s: %d without %s", path, answer.Code, want.text)
		}
		if strings.Contains(answer.Body.String(), "<script") || !strings.Contains(answer.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%.40s may run a script", path)
		}
	}
	moved := get(t, c, "/docs/guides/order.md")
	if moved.Code != http.StatusMovedPermanently || moved.Header().Get("Location") != "/docs/guides/order" {
		t.Errorf("the address in the repository: %d %s", moved.Code, moved.Header().Get("Location"))
	}
}
