package lab_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/trials/lab"
)

// A campaign that fails on another machine has to be understood from what it prints: the seed,
// the end of each log, and where the whole logs are, after the campaign's own directory is gone.
func TestExplainFailureQuotesTheLogs(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "campaign")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	whole := strings.Repeat("an earlier line of the log\n", 1000) + "the last line\n"
	for name, content := range map[string]string{"a-0.log": whole, "a-1.log": "another process\n", "a-2.log": "", "b.log": "of another campaign\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cause := errors.New("cycle 7: waiting in vain")
	failure := lab.ExplainFailure(cause, "./scripts/kills -cycles 21 -seed 4711", filepath.Join(dir, "a-*.log"))
	if !errors.Is(failure, cause) {
		t.Errorf("the cause is lost: %v", failure)
	}
	text := failure.Error()
	for _, want := range []string{"cycle 7: waiting in vain", "./scripts/kills -cycles 21 -seed 4711", "the last line", "another process", "--- a-0.log, the last "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
	if !strings.HasSuffix(text, "\nthe cause: cycle 7: waiting in vain") {
		t.Errorf("the end of a long output does not hold the cause:\n%s", text)
	}
	if strings.Contains(text, "of another campaign") || len(text) > 10_000 {
		t.Errorf("%d bytes: it is not bounded, or quotes what is not its own:\n%s", len(text), text)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	kept := regexp.MustCompile(`the whole logs: (\S+)`).FindStringSubmatch(text)
	if kept == nil {
		t.Fatalf("it does not say where the whole logs are:\n%s", text)
	}
	t.Cleanup(func() { _ = os.RemoveAll(kept[1]) })
	if content, err := os.ReadFile(filepath.Join(kept[1], "a-0.log")); err != nil || string(content) != whole {
		t.Errorf("%d bytes of %d are kept, %v", len(content), len(whole), err)
	}
	if lab.ExplainFailure(nil, "x", filepath.Join(dir, "*")) != nil {
		t.Error("a campaign that came to its end is an error")
	}
}
