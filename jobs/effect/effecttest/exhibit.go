package effecttest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/jobs/effect"
)

// Fails runs a test of this binary that gives a wrong kind to the suite, and reports the topics
// that do not fail it. The test reads the name of the wrong kind from the flag -exhibit.
func Fails(t *testing.T, test, exhibit string, topics ...Topic) {
	t.Helper()
	names := make([]string, len(topics))
	for i, topic := range topics {
		names[i] = strings.ReplaceAll(string(topic), " ", "_")
	}
	run := "^" + test + "$/^(" + strings.Join(names, "|") + ")$"
	out, err := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+run, "-exhibit="+exhibit).CombinedOutput()
	if err == nil {
		t.Fatalf("the suite passes it: %s", out)
	}
	for _, name := range names {
		if !strings.Contains(string(out), "--- FAIL: "+test+"/"+name+" ") {
			t.Errorf("%s does not fail it", name)
		}
	}
}

// Changed returns a sender whose results are changed, to make a correct kind wrong in one way.
func Changed(right effect.Sender, change func(*effect.Result)) effect.Sender {
	return changed{right, change}
}

type changed struct {
	effect.Sender
	change func(*effect.Result)
}

// Send implements [effect.Sender].
func (c changed) Send(ctx context.Context, call *effect.Call) effect.Result {
	result := c.Sender.Send(ctx, call)
	c.change(&result)
	return result
}

// RepeatUnknown treats an attempt that may have happened as one that did not.
func RepeatUnknown(r *effect.Result) {
	if r.Outcome == effect.Unknown {
		r.Outcome = effect.Retry
	}
}
