package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/docs/reference"
)

// The programme and what it is made with. Its client is generated from the description each time: nothing about a route is
// written by hand.
const typescript = "testdata/typescript"

// node finds Node and npm, or says that the client is not tried.
func node(t *testing.T) {
	t.Helper()
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		if os.Getenv("REQUIRE_NPM") != "" {
			t.Fatalf("there is no %s, and REQUIRE_NPM is set: install Node 20 or newer with npm", name)
		}
		t.Skipf("NOT TESTED: the API by a generated client. There is no %s: install Node 20 or newer with npm", name)
	}
}

// output runs a command and gives what it prints.
func output(ctx context.Context, folder string, environ []string, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env = folder, append(os.Environ(), environ...)
	text, err := c.CombinedOutput()
	return string(text), err
}

// modules installs the packages of the lock file once for the checkout and gives their folder.
func modules(t *testing.T) string {
	t.Helper()
	lock, err := os.ReadFile(filepath.Join(typescript, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	parent, err := filepath.Abs("../../.oncegate/npm")
	if err != nil {
		t.Fatal(err)
	}
	installed := filepath.Join(parent, hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(installed); err == nil {
		return filepath.Join(installed, "node_modules")
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp(parent, "new-") //nolint:usetesting // it is renamed within its file system, and kept
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(fresh) }()
	for _, name := range []string{"package.json", "package-lock.json", ".npmrc"} {
		copyFile(t, filepath.Join(typescript, name), filepath.Join(fresh, name))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if text, err := output(ctx, fresh, nil, "npm", "ci", "--no-progress"); err != nil {
		if os.Getenv("REQUIRE_NPM") == "" {
			t.Skipf("NOT TESTED: the API by a generated client. Its packages could not be installed: npm ci: %v\n%s", err, text)
		}
		t.Fatalf("npm ci: %v\n%s", err, text)
	}
	if err := os.Rename(fresh, installed); err != nil && !errors.Is(err, fs.ErrExist) {
		if _, there := os.Stat(installed); there != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(installed, "node_modules")
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// programme generates the client, compiles it with what exercises it, and gives the folder.
func programme(t *testing.T) string {
	t.Helper()
	node(t)
	packages := modules(t)
	folder := t.TempDir()
	for _, name := range []string{"package.json", "openapi-ts.config.mjs", "tsconfig.json", "described.ts", "exercise.ts"} {
		copyFile(t, filepath.Join(typescript, name), filepath.Join(folder, name))
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
func TestAGeneratedClientExercisesTheAPI(t *testing.T) { //nolint:paralleltest // it sets environment variables
	if testing.Short() {
		t.Skip("it installs and compiles a client")
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

	text, err := exercise(w.private.URL, "")
	if err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	t.Log(text[strings.LastIndex(strings.TrimSpace(text), "\n")+1:])
}

// altered is the address of a proxy to the server that changes the rows of the list at a path.
func (w *world) altered(t *testing.T, path string, change func(*http.Response, map[string]any)) string {
	t.Helper()
	at, err := url.Parse(w.private.URL)
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
