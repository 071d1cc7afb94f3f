package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/cmd/internal/cli"
	"github.com/oncegate/oncegate/cmd/internal/docs"
)

type alertRules struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr, For string
			Annotations      struct {
				Summary, Action string
				RunbookURL      string `yaml:"runbook_url"`
			}
		}
	}
}

// The alerting rules use existing metrics and labels, and their commands are commands of the
// program.
func TestAlertsAreAboutMetricsThatExist(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(docs.Root, "docs", "guides", "alerts.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var rules alertRules
	if err := yaml.Unmarshal(content, &rules); err != nil {
		t.Fatal(err)
	}
	metrics, err := docs.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	labels, kinds := map[string][]string{"oncegate_build_info": nil}, map[string]string{}
	for _, m := range metrics {
		labels[m.Name], kinds[m.Name] = m.Labels, m.Kind
	}
	var (
		name     = regexp.MustCompile(`\boncegate_[a-z_]+`)
		grouping = regexp.MustCompile(`by \(([a-z_, ]+)\)`)
		selector = regexp.MustCompile(`([a-z_]+)="`)
		used     = regexp.MustCompile(`\$labels\.([a-z_]+)`)
		command  = regexp.MustCompile("`oncegate ([a-z]+(?: [a-z]+)?)")
	)
	runbook, err := os.ReadFile(filepath.Join(docs.Root, "docs", "guides", "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(runbook), "\n### Oncegate"); len(rules.Groups) != 1 || n != len(rules.Groups[0].Rules) {
		t.Errorf("%d sections of the runbook", n)
	}
	found := 0
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			found++
			if rule.Alert == "" || rule.Annotations.Summary == "" || rule.Annotations.Action == "" {
				t.Errorf("%q has no name, or does not say what is wrong and what to do", rule.Expr)
			}
			if want := "https://github.com/oncegate/oncegate/blob/main/docs/guides/monitoring.md#" + strings.ToLower(rule.Alert); rule.Annotations.RunbookURL != want {
				t.Errorf("%s links to %q, want %q", rule.Alert, rule.Annotations.RunbookURL, want)
			}
			if !strings.Contains(string(runbook), "\n### "+rule.Alert+"\n") {
				t.Errorf("%s has no section in the runbook", rule.Alert)
			}
			var given []string
			for _, m := range grouping.FindAllStringSubmatch(rule.Expr, -1) {
				given = append(given, strings.Split(m[1], ", ")...)
			}
			for _, metric := range name.FindAllString(rule.Expr, -1) {
				has, ok := labels[metric]
				if !ok {
					t.Errorf("%s asks for %s, which does not exist", rule.Alert, metric)
				}
				for _, label := range given {
					if label == "instance" { // Prometheus adds it
						continue
					}
					if !slices.Contains(has, label) {
						t.Errorf("%s groups %s by %s, which it does not have", rule.Alert, metric, label)
					}
				}
				for _, m := range selector.FindAllStringSubmatch(rule.Expr, -1) {
					if strings.Contains(rule.Expr, metric+"{") && !slices.Contains(has, m[1]) {
						t.Errorf("%s selects %s by %s, which it does not have", rule.Alert, metric, m[1])
					}
				}
				if increased := strings.Contains(rule.Expr, "increase("+metric); increased != (kinds[metric] == "counter") {
					t.Errorf("%s takes the increase of %s: %t, and it is a %s", rule.Alert, metric, increased, kinds[metric])
				}
			}
			for _, m := range used.FindAllStringSubmatch(rule.Annotations.Summary+rule.Annotations.Action, -1) {
				if !slices.Contains(given, m[1]) {
					t.Errorf("%s quotes the label %s, by which it does not group", rule.Alert, m[1])
				}
			}
			root := cli.Command()
			for _, m := range command.FindAllStringSubmatch(rule.Annotations.Action, -1) {
				words := strings.Fields(m[1])
				if c, _, err := root.Find(words); err != nil || c == root || c.HasSubCommands() && len(words) > 1 {
					t.Errorf("%s names oncegate %s, which does not exist", rule.Alert, m[1])
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d rules were found", found)
	}
}
