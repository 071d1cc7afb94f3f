package console

import (
	"bytes"
	"html/template"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/oncegate/oncegate/docs"
	"github.com/oncegate/oncegate/internal/manual"
)

// repository is the place of files that the documentation links to and the binary does not contain.
const repository = "https://github.com/oncegate/oncegate/blob/main/"

// readManual reads the documentation at the first request for it.
var readManual = sync.OnceValues(func() (*manual.Manual, error) { return manual.New(docs.Files(), "/docs", repository) })

// manualPage is what the template of the documentation shows: a page, or the hits of a search.
type manualPage struct {
	*manual.Page
	Content template.HTML
	Groups  []manual.Group
	Theme   string
	Query   string
	Hits    []manual.Hit
	Missing bool
}

// serveManual serves the documentation. It needs no login, because the documentation is public.
func (c *Console) serveManual(w http.ResponseWriter, r *http.Request) {
	m, err := readManual()
	if err != nil {
		c.cfg.Logger.LogAttrs(r.Context(), slog.LevelError, "the documentation cannot be read", slog.Any("error", err))
		http.Error(w, "The documentation cannot be read; the log of the server says why.", http.StatusInternalServerError)
		return
	}
	name := strings.Trim(r.PathValue("page"), "/")
	if content, ok := m.File(name); ok {
		w.Header().Set("Content-Type", textKind(name))
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		return
	}
	if bare, ok := strings.CutSuffix(name, ".md"); ok { // an address of the repository
		if page := m.Page(bare); page != nil {
			http.Redirect(w, r, "/docs/"+page.Path, http.StatusMovedPermanently) //nolint:gosec // the path is one of our pages, and not the text of the request
			return
		}
	}
	shown, status := manualPage{Groups: m.Groups(), Theme: theme(r), Query: strings.TrimSpace(r.URL.Query().Get("q"))}, http.StatusOK
	switch page := m.Page(name); {
	case shown.Query != "":
		shown.Page, shown.Hits = &manual.Page{Path: "-", Title: "Search"}, m.Search(shown.Query)
	case page != nil:
		shown.Page, shown.Content = page, template.HTML(page.HTML) //nolint:gosec // the pages are part of the program
	default:
		shown.Page, shown.Missing, status = &manual.Page{Path: "-", Title: "There is no such page"}, true, http.StatusNotFound
	}
	c.drawManual(w, r, status, &shown)
}

func (c *Console) drawManual(w http.ResponseWriter, r *http.Request, status int, shown *manualPage) {
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, "manual", shown); err != nil {
		c.cfg.Logger.LogAttrs(r.Context(), slog.LevelError, "a page of the documentation cannot be drawn", slog.String("path", r.URL.Path), slog.Any("error", err))
		http.Error(w, "The page cannot be drawn; the log of the server says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // the browser is gone if this fails
}

// textKind returns the type under which a file of the documentation is shown in the browser.
func textKind(name string) string {
	if kind := mime.TypeByExtension(path.Ext(name)); strings.HasPrefix(kind, "application/json") {
		return kind
	}
	return "text/plain; charset=utf-8"
}
