package effecttest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Fails runs a test of this binary, which puts the wrong kind of that name before
// the suite, and reports the topics that let it pass. The test finds the name in
// the flag -exhibit.
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
