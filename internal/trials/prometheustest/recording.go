// Package prometheustest evaluates what processes have shown at /metrics with Prometheus's own promtool. A test makes the samples of many
// days in seconds.
package prometheustest

import (
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// Scrape is the value of each series at one time, as Prometheus would store it.
type Scrape map[string]string

// aSeries is a series of ours, or one of the process that the dashboard shows.
var aSeries = regexp.MustCompile(`(?m)^(oncegate_[a-z_]+|go_goroutines|process_cpu_seconds_total|process_resident_memory_bytes)(?:\{(.*)\})? (\S+)$`)

// Parse reads the answer of /metrics, and adds the label instance. promtool begins at the time 0, so a timestamp becomes the seconds
// since began.
func Parse(t *testing.T, answer, instance string, began time.Time) Scrape {
	t.Helper()
	out := Scrape{}
	for _, m := range aSeries.FindAllStringSubmatch(answer, -1) {
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(m[1], "_timestamp_seconds") {
			value = math.Round(value - float64(began.Unix()))
		}
		// promtool reads the exponent of a repeated value as a step.
		out[m[1]+"{"+strings.TrimPrefix(m[2]+`,instance="`+instance+`"`, ",")+"}"] = strconv.FormatFloat(value, 'f', -1, 64)
	}
	return out
}

// Value returns the sum of the series with the name whose labels contain all of the given ones, such as `source="shop"`. It is NaN if there
// is no such series.
func (s Scrape) Value(name string, labels ...string) float64 {
	sum := math.NaN()
	for series, value := range s {
		if !strings.HasPrefix(series, name+"{") || slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(series, label) }) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		if math.IsNaN(sum) {
			sum = 0
		}
		sum += n
	}
	return sum
}

// Recording is a scrape for each minute.
type Recording struct{ scrapes []Scrape }

// Keep appends a scrape as the samples of so many minutes. nil is a time without an answer.
func (r *Recording) Keep(scrape Scrape, minutes int) {
	for range minutes {
		r.scrapes = append(r.scrapes, scrape)
	}
}

// Minutes is how long the recording is.
func (r *Recording) Minutes() int { return len(r.scrapes) }

// Question is an expression for Prometheus. Its answer at a minute of the recording must have exactly the series of Want, each with
// the value 1.
type Question struct {
	Expr   string
	Minute int
	Want   []string
}

// Fired asks which alerts fired in the minutes from the first to before the last: exactly those that are wanted must have.
func Fired(first, last int, want ...string) Question {
	q := Question{Expr: fmt.Sprintf(`group by (alertname) (max_over_time(ALERTS{alertstate="firing"}[%dm]))`, last-first), Minute: last - 1}
	for _, alert := range want {
		q.Want = append(q.Want, fmt.Sprintf(`{alertname=%q}`, alert))
	}
	return q
}

// AskPanels reports each query of a dashboard that had a number at no time of the recording. A rule evaluates the query every ten minutes and
// remembers that it had one, because promtool's queries may read few samples.
func (r *Recording) AskPanels(t *testing.T, queries []Query) {
	t.Helper()
	type object = map[string]any
	var all []object
	var questions []Question
	for i, q := range queries {
		had := fmt.Sprintf(`had_data{query="%d"}`, i)
		all = append(all, object{
			"record": "had_data", "labels": object{"query": strconv.Itoa(i), "panel": q.Panel},
			"expr": fmt.Sprintf("group(count((%s) == (%s))) or group(max_over_time(%s[15m]))", q.Expr, q.Expr, had),
		})
		questions = append(questions, Question{Expr: "group by (panel) (max_over_time(" + had + "[15m]))", Minute: r.Minutes() - 1, Want: []string{fmt.Sprintf("{panel=%q}", q.Panel)}})
	}
	rules := filepath.Join(t.TempDir(), "had_data.yml")
	write(t, rules, object{"groups": []object{{"name": "had_data", "rules": all}}})
	r.ask(t, rules, "10m", questions)
}

// write writes a file of YAML.
func write(t *testing.T, file string, content any) {
	t.Helper()
	text, err := yaml.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Ask has promtool load the recording and the rules of a file, and reports each answer that is another one than wanted.
func (r *Recording) Ask(t *testing.T, rules string, questions ...Question) {
	t.Helper()
	r.ask(t, rules, "1m", questions)
}

// ask evaluates the rules at an interval.
func (r *Recording) ask(t *testing.T, rules, every string, questions []Question) {
	t.Helper()
	type object = map[string]any
	var tests []object
	for _, q := range questions {
		expected := []object{}
		for _, labels := range q.Want {
			expected = append(expected, object{"labels": labels, "value": 1})
		}
		tests = append(tests, object{"expr": q.Expr, "eval_time": fmt.Sprintf("%dm", q.Minute), "exp_samples": expected})
	}
	path, err := filepath.Abs(rules)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "recorded.yml")
	write(t, file, object{"rule_files": []string{path}, "evaluation_interval": every, "tests": []object{{
		"interval": "1m", "input_series": r.series(), "promql_expr_test": tests,
	}}})
	if out, err := exec.CommandContext(t.Context(), Promtool(t), "test", "rules", file).CombinedOutput(); err != nil { //nolint:gosec // the caller's own program
		t.Errorf("%v\n%s", err, out)
	}
}

// series returns the series in promtool's notation: a value that is repeated n times is vx(n-1).
func (r *Recording) series() (out []map[string]any) {
	all := map[string]bool{}
	for _, scrape := range r.scrapes {
		for series := range scrape {
			all[series] = true
		}
	}
	for _, series := range slices.Sorted(maps.Keys(all)) {
		var values []string
		last, times := "", 0
		add := func() {
			switch {
			case times == 1:
				values = append(values, last)
			case times > 0 && last == "_":
				values = append(values, fmt.Sprintf("_x%d", times))
			case times > 0:
				values = append(values, fmt.Sprintf("%sx%d", last, times-1))
			}
		}
		for _, scrape := range r.scrapes {
			value, there := scrape[series]
			if !there {
				value = "_"
			}
			if value != last {
				add()
				last, times = value, 0
			}
			times++
		}
		add()
		out = append(out, map[string]any{"series": series, "values": strings.Join(values, " ")})
	}
	return out
}

// Promtool is where scripts/prometheus has built it. Without it the test is skipped.
func Promtool(t *testing.T) string {
	t.Helper()
	found := os.Getenv("ONCEGATE_PROMTOOL")
	if found == "" {
		t.Skip("NOT TESTED: ONCEGATE_PROMTOOL names no promtool. Building it takes five minutes, so `.ci/nightly alerts` does")
	}
	return found
}
