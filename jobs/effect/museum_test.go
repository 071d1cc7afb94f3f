package effect_test

import (
	"bytes"
	"context"
	"flag"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
)

var exhibit = flag.String("exhibit", "", "the wrong sender that TestExhibit puts before the suite")

// wrong sends as one would at first, with one of the ways to be wrong.
type wrong struct {
	effect.Sender
	how string
	url string
}

func (w *wrong) Send(ctx context.Context, call *effect.Call) effect.Result {
	body := call.Event.Body
	if w.how == "reserialised" {
		body = append([]byte{byte('0' + call.Attempt)}, body...)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return effect.Result{Outcome: effect.Dead, Reason: effect.ReasonRender}
	}
	req.Header.Set("Idempotency-Key", call.Key)
	if w.how == "fresh key" {
		req.Header.Set("Idempotency-Key", call.Key+strconv.Itoa(call.Attempt))
	}
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		return effect.Result{Outcome: effect.Retry, Reason: effect.ReasonConnect, Excerpt: effecttest.Secret}
	}
	defer reply.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(reply.Body, 1<<20))
	if reply.StatusCode < 300 {
		return effect.Result{Outcome: effect.Done, Code: strconv.Itoa(reply.StatusCode), Excerpt: string(said)}
	}
	return effect.Result{Outcome: effect.Retry, Code: strconv.Itoa(reply.StatusCode), Excerpt: string(said)}
}

// TestExhibit is run by the test below, in a process of its own.
func TestExhibit(t *testing.T) { //nolint:paralleltest // Run makes it parallel
	if *exhibit == "" {
		return // nothing is on show
	}
	effecttest.Run(t, effecttest.Kind{
		New: func(tb testing.TB, url string, idempotent bool) effect.Sender {
			return &wrong{Sender: newForward(tb, effect.ForwardConfig{URL: url, Idempotent: idempotent}), how: *exhibit, url: url}
		},
		KeyHeader: "Idempotency-Key",
	})
}

func TestTheSuiteFailsWrongSenders(t *testing.T) {
	t.Parallel()
	for how, fails := range map[string][]string{
		"the obvious way": {"every_status", "faults", "no_resend_on_a_connection_kept_alive", "retry_after", "no_redirect"},
		"fresh key":       {"identical_attempts"},
		"reserialised":    {"identical_attempts"},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			out, err := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestExhibit$", "-exhibit="+how).CombinedOutput()
			if err == nil {
				t.Fatal("the suite passes it")
			}
			for _, name := range fails {
				if !strings.Contains(string(out), "--- FAIL: TestExhibit/"+name) {
					t.Errorf("%s does not fail it", name)
				}
			}
		})
	}
}
