package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

const secret = "the-secret-of-the-examples"

// oncegate is the program, as it is shipped.
var oncegate string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "calls")
	if err == nil {
		defer os.RemoveAll(dir)
		oncegate = filepath.Join(dir, "oncegate")
		err = lab.Build(context.Background(), "./cmd/oncegate", oncegate)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// languages are the examples, with what runs them and the variable that makes its absence a failure.
var languages = map[string]struct{ program, require, file string }{
	"Go":         {},
	"curl":       {"curl", "REQUIRE_CURL", "calls.sh"},
	"JavaScript": {"node", "REQUIRE_NODE", "calls.mjs"},
	"Python":     {"python3", "REQUIRE_PYTHON", "calls.py"},
}

// Each example is called twice, in each language, through a network that loses answers and in front of an Oncegate that
// is not well, and one thing happens at a target that cannot deduplicate.
func TestCallsHappenOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for language := range languages {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			command := commandOf(t, language)
			for name, c := range map[string]struct {
				second              fault // beside an answer that is lost
				first, again, other []string
			}{
				"a tool of an agent": {
					second: cutBefore,
					first:  []string{"tool", "ID", "3", `{"case":"ID","amount":100}`},
					other:  []string{"tool", "ID", "4", `{"case":"ID","amount":100}`},
				},
				"a step of a workflow": {
					second: cutInside,
					first:  []string{"step", "ID", "ship", "1", `{"case":"ID"}`},
					other:  []string{"step", "ID", "ship", "2", `{"case":"ID"}`},
				},
				"a form submitted twice": {
					second: unavailable,
					first:  []string{"form", `{"form":"news","submission":"ID-1","email":"ID@example.com"}`},
					other:  []string{"form", `{"form":"news","submission":"ID-2","email":"other-ID@example.com"}`},
				},
				"a form opened twice within a minute": {
					second: cutAfter,
					first:  []string{"form", `{"form":"news","submission":"ID-1","email":"ID@example.com"}`},
					again:  []string{"form", `{"form":"news","submission":"ID-2","email":"ID@example.com"}`},
				},
				"a receipt that is sent again": {
					second: tooMany,
					first:  []string{"resend", "ID", "1"},
					other:  []string{"resend", "ID", "2"},
				},
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					id := w.newID()
					if c.again == nil {
						c.again = c.first
					}
					address, faults := w.hostile(t, cutAfter, c.second)
					for i, args := range [][]string{c.first, c.again} {
						if code, out := w.run(t, command, address, id, args); code != 0 || !strings.HasPrefix(out, "done ") {
							t.Fatalf("call %d ends with %d: %s", i+1, code, out)
						}
					}
					if left := faults(); left > 0 {
						t.Errorf("%d faults were not met", left)
					}
					if n := w.happened(id); n != 1 {
						t.Errorf("it happened %d times", n)
					}
					if c.other == nil {
						return
					}
					if code, out := w.run(t, command, address, id, c.other); code != 0 {
						t.Fatalf("another call ends with %d: %s", code, out)
					}
					if n := w.happened(id); n != 2 {
						t.Errorf("two different calls happened %d times", n)
					}
				})
			}
		})
	}
}

// What is not "done" is told apart, the same when the call is repeated, and never makes a second effect.
func TestCallsTellTheirEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for language := range languages {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			command := commandOf(t, language)
			address, _ := w.hostile(t)
			for name, c := range map[string]struct {
				mode string
				code int
				want string
			}{
				"the target refuses it":             {mode: "refuse", code: 1, want: "failed "},
				"nobody knows whether it happened":  {mode: "vanish", code: 3, want: "indeterminate "},
				"it is still in flight at its end":  {mode: "stand still", code: 75, want: "unfinished"},
				"it is in flight and then finished": {mode: "linger", code: 0, want: "done "},
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					id := w.newID()
					args := []string{"tool", "ID", "1", `{"case":"ID","mode":"` + c.mode + `"}`}
					var first string
					for range 2 {
						code, out := w.run(t, command, address, id, args)
						if code != c.code || !strings.HasPrefix(out, c.want) {
							t.Fatalf("it ends with %d: %s", code, out)
						}
						if first == "" {
							first = out
						}
						if out != first {
							t.Errorf("repeated, it says %q, and said %q", out, first)
						}
					}
					if n := w.happened(id); n != 1 {
						t.Errorf("it was sent %d times", n)
					}
				})
			}
			t.Run("the key stands for another call", func(t *testing.T) {
				t.Parallel()
				id := w.newID()
				if code, out := w.run(t, command, address, id, []string{"tool", "ID", "1", `{"case":"ID","amount":1}`}); code != 0 {
					t.Fatalf("it ends with %d: %s", code, out)
				}
				code, out := w.run(t, command, address, id, []string{"tool", "ID", "1", `{"case":"ID","amount":2}`})
				if code != 2 || !strings.Contains(out, "payload_differs") {
					t.Errorf("it ends with %d: %s", code, out)
				}
				if n := w.happened(id); n != 1 {
					t.Errorf("it happened %d times", n)
				}
			})
			t.Run("the key cannot be made", func(t *testing.T) {
				t.Parallel()
				id := w.newID()
				if code, out := w.run(t, command, address, id, []string{"form", `{"form":"news","case":"ID"}`}); code != 2 || !strings.HasPrefix(out, "refused: 400") {
					t.Errorf("it ends with %d: %s", code, out)
				}
				if n := w.happened(id); n != 0 {
					t.Errorf("it happened %d times", n)
				}
			})
		})
	}
}

// commandOf is what runs an example, or skips the test where its language is not on this machine.
func commandOf(t *testing.T, language string) []string {
	t.Helper()
	l := languages[language]
	if l.program == "" {
		binary := filepath.Join(t.TempDir(), "calls")
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return []string{binary}
	}
	program, err := exec.LookPath(l.program)
	switch {
	case err != nil && os.Getenv(l.require) != "":
		t.Fatalf("%s is set and there is no %s on PATH", l.require, l.program)
	case err != nil:
		t.Skipf("NOT TESTED: the calls in %s. There is no %s on PATH", language, l.program)
	case l.program == "curl":
		return []string{"sh", l.file}
	}
	return []string{program, l.file}
}

// world is an Oncegate with the configuration of the examples, and a target that notes what it was asked to do.
type world struct {
	oncegate *url.URL
	dir      string

	mu       sync.Mutex
	ids      int
	bodies   []string
	inFlight map[string]bool // the cases of which a call was told that it is in flight
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), inFlight: map[string]bool{}}
	end := make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		content, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.mu.Lock()
		w.bodies = append(w.bodies, string(content))
		w.mu.Unlock()
		switch mode := string(content); {
		case strings.Contains(mode, `"refuse"`):
			rw.WriteHeader(http.StatusUnprocessableEntity)
		case strings.Contains(mode, `"vanish"`):
			panic(http.ErrAbortHandler)
		case strings.Contains(mode, `"stand still"`):
			<-end
		case strings.Contains(mode, `"linger"`):
			var body struct{ Case string }
			_ = json.Unmarshal(content, &body)
			for !w.wasInFlight(body.Case) {
				select {
				case <-end:
					return
				case <-time.After(10 * time.Millisecond):
				}
			}
		}
	}))
	t.Cleanup(target.Close)
	t.Cleanup(func() { close(end) })
	dsn, schema := inboxtest.Schema(t)
	public, err := rig.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := rig.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile("oncegate.yml")
	if err != nil {
		t.Fatal(err)
	}
	// The target may take long here, and nobody waits for it: callers are told that their call is in flight.
	config := filepath.Join(w.dir, "oncegate.yml")
	text := strings.NewReplacer("wait: 20s", "wait: 1s", "kind: forward", "kind: forward, timeout: 50s").Replace(string(content))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(w.dir, "log")
	process, err := rig.Start(log, []string{
		"DATABASE_URL=" + dsn, "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_CONFIG=" + config, "ONCEGATE_PUBLIC=" + public, "ONCEGATE_ADMIN=" + admin,
		"CALLER_SECRET=" + secret, "TARGET=" + target.URL,
	}, oncegate, "serve")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Kill(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := process.Ready(ctx, "http://"+admin+"/readyz"); err != nil {
		t.Fatalf("%v\n%s", err, rig.TailFile(log))
	}
	w.oncegate = &url.URL{Scheme: "http", Host: public}
	return w
}

// newID names one case. No other case's name begins with it.
func (w *world) newID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids++
	return "case-" + string(rune('a'+w.ids/26)) + string(rune('a'+w.ids%26))
}

// happened is how often the target was asked to do what the case calls for.
func (w *world) happened(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, body := range w.bodies {
		if strings.Contains(body, id) {
			n++
		}
	}
	return n
}

func (w *world) wasInFlight(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inFlight[id]
}

// run makes a call, and gives its exit code and what it printed.
func (w *world) run(t *testing.T, command []string, address, id string, args []string) (int, string) {
	t.Helper()
	patience := "300"
	if slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, "stand still") }) {
		patience = "2"
	}
	full := slices.Clone(command[1:])
	for _, arg := range args {
		full = append(full, strings.ReplaceAll(arg, "ID", id))
	}
	process := exec.CommandContext(t.Context(), command[0], full...)
	process.Env = append(os.Environ(), "ONCEGATE="+address, "CALLER_SECRET="+secret, "PATIENCE="+patience)
	process.Stderr = t.Output()
	out, err := process.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return process.ProcessState.ExitCode(), string(out)
}

// fault is what befalls one request on its way.
type fault int

const (
	cutBefore   fault = iota // the connection breaks before Oncegate has the request
	cutAfter                 // Oncegate has answered, and the answer is lost
	cutInside                // the answer breaks off in the middle
	unavailable              // 503
	tooMany                  // 429
)

// hostile is an address in front of Oncegate at which the first requests meet the faults, one each; faults says how many
// are left.
func (w *world) hostile(t *testing.T, meet ...fault) (address string, faults func() int) {
	t.Helper()
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		next := fault(-1)
		if len(meet) > 0 {
			next, meet = meet[0], meet[1:]
		}
		mu.Unlock()
		if next == cutBefore {
			panic(http.ErrAbortHandler)
		}
		if next == unavailable || next == tooMany {
			rw.Header().Set("Retry-After", "1")
			rw.WriteHeader(map[fault]int{unavailable: 503, tooMany: 429}[next])
			return
		}
		status, header, content, err := w.pass(r)
		if err != nil || next == cutAfter {
			panic(http.ErrAbortHandler)
		}
		maps.Copy(rw.Header(), header)
		rw.WriteHeader(status)
		if next == cutInside {
			_, _ = rw.Write(content[:len(content)/2])
			rw.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = rw.Write(content)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(meet)
	}
}

// pass gives a request to Oncegate, and its whole answer.
func (w *world) pass(r *http.Request) (status int, header http.Header, content []byte, err error) {
	request := r.Clone(r.Context())
	request.RequestURI, request.URL.Scheme, request.URL.Host = "", w.oncegate.Scheme, w.oncegate.Host
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer response.Body.Close()
	if content, err = io.ReadAll(response.Body); err != nil {
		return 0, nil, nil, err
	}
	if response.StatusCode == http.StatusConflict {
		w.mu.Lock()
		w.inFlight[r.Header.Get("Conversation-Id")] = true
		w.mu.Unlock()
	}
	return response.StatusCode, response.Header, content, nil
}
