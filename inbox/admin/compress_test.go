package admin_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Pages are compressed for a client that accepts it. What is short, streams, or answers a change is not: a new secret is in such an
// answer, and its compressed length would tell of it.
func TestAnswersAreCompressed(t *testing.T) {
	t.Parallel()
	a := newAdmin(t)
	page := strings.Repeat("<p>a row of a table</p>\n", 500)
	a.Mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.URL.Path == "/short" {
			_, _ = io.WriteString(w, "short")
			return
		}
		_, _ = io.WriteString(w, page)
	}))
	ask := func(method, path string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+path, nil)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		out := httptest.NewRecorder()
		a.Handler().ServeHTTP(out, r)
		return out
	}
	answer := ask(http.MethodGet, "/page", "Accept-Encoding", "gzip, br, zstd")
	if answer.Header().Get("Content-Encoding") != "gzip" || answer.Header().Get("Vary") != "Accept-Encoding" || answer.Body.Len() > len(page)/10 {
		t.Fatalf("a page of %d bytes is answered with %v and %d bytes", len(page), answer.Header(), answer.Body.Len())
	}
	unpacked, err := gzip.NewReader(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(unpacked); err != nil || string(text) != page {
		t.Errorf("the page is another one: %v, %d bytes", err, len(text))
	}
	for name, answer := range map[string]*httptest.ResponseRecorder{
		"a client that accepts nothing": ask(http.MethodGet, "/page"),
		"a short answer":                ask(http.MethodGet, "/short", "Accept-Encoding", "gzip"),
		"a stream":                      ask(http.MethodGet, "/page", "Accept-Encoding", "gzip", "Accept", "text/event-stream"),
		"a change":                      ask(http.MethodPost, "/page", "Accept-Encoding", "gzip"),
	} {
		if encoding := answer.Header().Get("Content-Encoding"); encoding != "" || answer.Code != http.StatusOK {
			t.Errorf("%s: %d %s", name, answer.Code, encoding)
		}
	}
}
