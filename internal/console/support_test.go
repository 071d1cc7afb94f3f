package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/console"
	"github.com/oncegate/oncegate/internal/control"
)

// now is the time of the pages.
var now = time.Date(2026, 11, 23, 14, 2, 7, 0, time.UTC)

const (
	someID = "0199aaaa-0000-7000-8000-0000000000a1"

	// attack is in every text that a page shows. A page on which any part of it is more than text is broken.
	attack = "\"><script>window.attacked=1</script><img src=x onerror=window.attacked=1>'javascript:window.attacked=1\u202egnp.exe\u2066\x00\x1b[31m\u0085 {{.}} \xff"
)

// filler is a caller that answers every operation with a response in which every text is text, every list has two rows,
// and every number is 7.
type filler struct {
	text string

	mu    sync.Mutex
	asked map[string]int
}

func (f *filler) Call(_ context.Context, operation control.Definition, _, response any) error {
	f.mu.Lock()
	f.asked[operation.Describe().ID]++
	f.mu.Unlock()
	f.fill(reflect.ValueOf(response).Elem(), 0)
	return nil
}

var (
	idType   = reflect.TypeFor[inbox.ID]()
	timeType = reflect.TypeFor[time.Time]()
	rawType  = reflect.TypeFor[json.RawMessage]()
)

func (f *filler) fill(v reflect.Value, depth int) {
	switch v.Type() {
	case idType:
		id, _ := inbox.ParseID(someID)
		v.Set(reflect.ValueOf(id))
		return
	case timeType:
		v.Set(reflect.ValueOf(now.Add(-90 * time.Minute)))
		return
	case rawType:
		text, _ := json.Marshal(map[string]string{f.text: f.text})
		v.SetBytes(text)
		return
	}
	switch v.Kind() { //nolint:exhaustive // answers are made of these
	case reflect.String:
		v.SetString(f.text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), depth)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				f.fill(v.Field(i), depth)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(f.text))
			return
		}
		if depth > 6 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			f.fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key, depth+1)
		f.fill(value, depth+1)
		v.SetMapIndex(key, value)
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(f.text))
		}
	}
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
		path = strings.NewReplacer("{$}", "", "{id}", someID, "{name}", "stripe", "{ref}", "7").Replace(path)
		out = append(out, path)
	}
	return append(out, "/nowhere", fmt.Sprintf("/events/%s", "nonsense"))
}

var hashes = regexp.MustCompile(`(/assets/[a-z]+\.)[0-9a-f]{16}|sha256-[A-Za-z0-9+/=]{44}|sha256-[^"]{44,60}"`)

// stableAssets leaves out what changes with every change of the style or the script.
func stableAssets(page string) string { return hashes.ReplaceAllString(page, "${1}HASH") }
