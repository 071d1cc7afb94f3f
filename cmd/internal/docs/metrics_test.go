package docs_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncegate/oncegate/cmd/internal/docs"
	"github.com/oncegate/oncegate/inbox/inboxtest"
)

var sample = regexp.MustCompile(`(?m)^(oncegate_[a-z_]+)(?:\{(.*)\})? `)

// The documentation lists what a process serves at /metrics: names, types, meanings and labels.
func TestMetricsAreThoseOfAProcess(t *testing.T) {
	t.Parallel()
	documented, err := docs.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]docs.Metric{}
	for _, m := range documented {
		known[m.Name] = m
	}
	served := scrape(t)
	families := 0
	for line := range strings.Lines(served) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if len(words) < 4 || words[0] != "#" || !strings.HasPrefix(words[2], "oncegate_") {
			continue
		}
		m, ok := known[words[2]]
		switch {
		case !ok:
			t.Errorf("a process serves %s, which is not documented", words[2])
		case words[1] == "HELP" && words[3] != m.Help:
			t.Errorf("%s is %q to a process and %q in the documentation", m.Name, words[3], m.Help)
		case words[1] == "TYPE" && words[3] != m.Kind:
			t.Errorf("%s is a %s to a process and a %s in the documentation", m.Name, words[3], m.Kind)
		}
		families++
	}
	if families < 100 {
		t.Errorf("a process served only %d lines about metrics", families)
	}
	for _, m := range sample.FindAllStringSubmatch(served, -1) {
		name := m[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if trimmed := strings.TrimSuffix(name, suffix); known[trimmed].Kind == "histogram" {
				name = trimmed
			}
		}
		var labels []string
		for _, pair := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(m[2], -1) {
			if pair[1] != "le" && name != "oncegate_build_info" { // it has constant labels
				labels = append(labels, pair[1])
			}
		}
		want := slices.Sorted(slices.Values(known[name].Labels))
		if slices.Sort(labels); !slices.Equal(labels, want) {
			t.Errorf("%s has the labels %v, and %v in the documentation", name, labels, want)
		}
	}
}

// scrape runs a development process, sends it a delivery and reads its metrics.
func scrape(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	url, schema := inboxtest.EmptySchema(t)
	environ := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + directory, "DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema,
		"ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0", "NO_COLOR=1",
	}
	process := exec.Command("oncegate", "dev")
	process.Dir, process.Env = directory, environ
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = process.Process.Signal(syscall.SIGTERM)
		_ = process.Wait()
	}()
	var state struct{ Admin string }
	patient(t, "the development process", func() bool {
		content, err := os.ReadFile(filepath.Join(directory, ".oncegate", "dev", "state.json"))
		return err == nil && json.Unmarshal(content, &state) == nil
	})
	send := exec.Command("oncegate", "send", "stripe")
	send.Dir, send.Env = directory, environ[:2]
	if out, err := send.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	served := ""
	patient(t, "an attempt in the metrics", func() bool {
		response, err := http.Get(state.Admin + "/metrics")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		content, err := io.ReadAll(response.Body)
		served = string(content)
		return err == nil && strings.Contains(served, "oncegate_attempt_seconds_count")
	})
	return served
}

func patient(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); !done(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within a minute", what)
		}
	}
}
