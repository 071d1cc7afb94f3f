package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/docs/reference"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/trials/npmtest"
)

// The programme and what it is made with. Its client is generated from the description each time: nothing about a route is
// written by hand.
const typescript = "testdata/typescript"

// output runs a command and gives what it prints.
func output(ctx context.Context, folder string, environ []string, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env = folder, append(os.Environ(), environ...)
	text, err := c.CombinedOutput()
	return string(text), err
}

// programme generates the client, compiles it with what exercises it, and gives the folder.
func programme(t *testing.T) string {
	t.Helper()
	packages := npmtest.Modules(t, typescript, "the API by a generated client")
	folder := t.TempDir()
	for _, name := range []string{"package.json", "openapi-ts.config.mjs", "tsconfig.json", "described.ts", "exercise.ts"} {
		npmtest.Copy(t, filepath.Join(typescript, name), filepath.Join(folder, name))
	}
	if err := os.WriteFile(filepath.Join(folder, "openapi.json"), reference.OpenAPI(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(packages, filepath.Join(folder, "node_modules")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if text, err := output(ctx, folder, nil, filepath.Join(packages, ".bin", "openapi-ts"), "-f", "openapi-ts.config.mjs"); err != nil {
		t.Fatalf("generating the client: %v\n%s", err, text)
	}
	if text, err := output(ctx, folder, nil, filepath.Join(packages, ".bin", "tsc"), "-p", "."); err != nil {
		t.Fatalf("the programme does not fit the generated client: %v\n%s", err, text)
	}
	return folder
}

// A client in another language, generated from the description alone, calls every operation of a running server, and each answer
// is as described.
func TestAGeneratedClientExercisesTheAPI(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short leaves out what installs and compiles a client; ./scripts/test runs it")
	}
	folder := programme(t)
	w := newWorld(t)
	w.fill(t)
	exercise := func(server, only string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		return output(ctx, folder, append(w.environ(server), "ONLY="+only), "node", "compiled/exercise.js")
	}

	// It notices what is not as described. These runs only read.
	for name, wrong := range map[string]struct {
		change func(*http.Response, map[string]any)
		says   string
	}{
		"a member that is called otherwise": {func(_ *http.Response, event map[string]any) {
			event["kind"] = event["type"]
			delete(event, "type")
		}, "must have required property 'type'"},
		"a required member that is missing": {func(_ *http.Response, event map[string]any) { delete(event, "received_at") }, "must have required property 'received_at'"},
		"an optional member that is called otherwise": {func(_ *http.Response, event map[string]any) {
			event["owner"] = event["tenant"]
			delete(event, "tenant")
		}, "must NOT have additional properties"},
		"a member of another type":   {func(_ *http.Response, event map[string]any) { event["deliveries"] = "one" }, "must be integer"},
		"a status that is not there": {func(answer *http.Response, _ map[string]any) { answer.StatusCode = http.StatusAccepted }, "the status 202 is not described"},
	} {
		text, err := exercise(w.altered(t, "/api/v1/events", wrong.change), "readWhatNeedsNothing")
		if err == nil || !strings.Contains(text, "list_events: ") || !strings.Contains(text, wrong.says) {
			t.Errorf("%s: %v, and the client does not say %q:\n%s", name, err, wrong.says, text)
		}
	}

	text, err := exercise(w.Private.URL, "")
	if err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	w.keepsNoContent(t)
	t.Log(text[strings.LastIndex(strings.TrimSpace(text), "\n")+1:])
}

// keepsNoContent fails if an answer that is kept under an Idempotency-Key holds content: payloads are sealed and erased, and
// answers are not.
func (w *world) keepsNoContent(t *testing.T) {
	t.Helper()
	rows, err := w.Pool.Query(t.Context(), `SELECT operation, coalesce(convert_from(answer, 'UTF8'), '') FROM api_request`)
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]bool{}
	var operation, answer string
	if _, err := pgx.ForEachRow(rows, []any{&operation, &answer}, func() error {
		kept[operation] = kept[operation] || answer != ""
		if strings.Contains(answer, canary) {
			t.Errorf("the answer of %s is kept with content: %s", operation, answer)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	fileOnly := []string{control.ReloadConfiguration.ID, control.CreateSource.ID, control.UpdateSource.ID, control.DisableSource.ID, control.EnableSource.ID}
	for _, o := range control.Operations() {
		if d := o.Describe(); d.Method == http.MethodPost && !slices.Contains(fileOnly, d.ID) && kept[d.ID] == (d.Secret || d.Reads) {
			t.Errorf("%s: an answer is kept: %v, and its answer is secret: %v, it reads: %v", d.ID, kept[d.ID], d.Secret, d.Reads)
		}
	}
}

// altered is the address of a proxy to the server that changes the rows of the list at a path.
func (w *world) altered(t *testing.T, path string, change func(*http.Response, map[string]any)) string {
	t.Helper()
	at, err := url.Parse(w.Private.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(at)
	proxy.ModifyResponse = func(answer *http.Response) error {
		if answer.Request.URL.Path != path {
			return nil
		}
		content, err := io.ReadAll(answer.Body)
		if err != nil {
			return err
		}
		var page map[string]any
		if err := json.Unmarshal(content, &page); err != nil {
			return err
		}
		for _, row := range page["data"].([]any) {
			change(answer, row.(map[string]any))
		}
		if content, err = json.Marshal(page); err != nil {
			return err
		}
		answer.Body = io.NopCloser(bytes.NewReader(content))
		answer.ContentLength = int64(len(content))
		answer.Header.Set("Content-Length", strconv.Itoa(len(content)))
		return nil
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL
}
