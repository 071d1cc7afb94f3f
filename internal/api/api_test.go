package api_test

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/api"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
)

// serve starts a server of the API on a schema of the test's own, for whoever sends the token "good".
func serve(t *testing.T, access control.Access) *api.Client {
	t.Helper()
	service, err := control.NewService(control.Config{Pool: inboxtest.Pool(t), Settings: &config.Config{}})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := api.New(api.Config{Service: service, Logger: slog.New(slog.DiscardHandler), Authenticate: func(r *http.Request) (control.Access, error) {
		if r.Header.Get("Authorization") != "Bearer good" {
			return control.Access{}, errors.New("who?")
		}
		return access, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &api.Client{Server: server.URL, Token: "good", HTTP: &http.Client{Timeout: 20 * time.Second}}
}

func TestTheClientAsksWhatTheServerAnswers(t *testing.T) {
	t.Parallel()
	client := serve(t, control.Everything("test"))
	page, err := control.Call(t.Context(), client, &control.ListEvents, control.ListEventsRequest{Type: "a b&c", Since: time.Unix(1, 0)})
	if err != nil || page.Data == nil || len(page.Data) != 0 || page.HasMore {
		t.Errorf("an empty list is %+v, %v", page, err)
	}
	_, err = control.Call(t.Context(), client, &control.ListEvents, control.ListEventsRequest{Source: "a b&c"})
	if problem, ok := errors.AsType[*control.Problem](err); !ok || problem.Code != control.CodeUnknownName || !strings.Contains(problem.Detail, `"a b&c"`) {
		t.Errorf("a filter by a source that is not there gives %v", err)
	}
	_, err = control.Call(t.Context(), client, &control.ShowEvent, control.EventReference{Ref: "stripe/evt_1/with slash?&#"})
	if problem, ok := errors.AsType[*control.Problem](err); !ok || problem.Code != control.CodeNotFound {
		t.Errorf("an event that is not there gives %v", err)
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	client := serve(t, control.Access{Actor: "nobody"})
	for _, c := range []struct {
		method, path, token string
		status              int
		code                control.Code
	}{
		{http.MethodGet, "/api/v1/events", "bad", 401, control.CodeUnauthorized},
		{http.MethodGet, "/api/v1/events", "good", 403, control.CodeForbidden},
		{http.MethodPost, "/api/v1/events", "good", 405, control.CodeMethod},
		{http.MethodGet, "/api/v1/nothing", "good", 404, control.CodeNotFound},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, client.Server+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+c.token)
		response, err := client.HTTP.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		var document struct{ Code control.Code }
		if err := json.Unmarshal(text, &document); err != nil || response.StatusCode != c.status || document.Code != c.code ||
			response.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, response.StatusCode, text, c.status, c.code)
		}
	}
}

func TestAParameterThatIsUnknownIsRefused(t *testing.T) {
	t.Parallel()
	client := serve(t, control.Everything("test"))
	for _, query := range []string{"?sorce=stripe", "?limit=many", "?limit=1&limit=2", "?limit=-1", "?since=yesterday", "?after=zzz"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, client.Server+"/api/v1/events"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer good")
		response, err := client.HTTP.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s gives %d", query, response.StatusCode)
		}
	}
}
