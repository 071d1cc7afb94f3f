package docs_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/cmd/internal/docs"
)

// The dashboard asks for metrics and labels that exist, and each panel says what it shows, in which unit and with which
// legend. A real Prometheus evaluates its queries in internal/app.
func TestDashboardIsAboutMetricsThatExist(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(docs.Root, "docs", "guides", "grafana.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			ID                       int
			Title, Type, Description string
			FieldConfig              struct{ Defaults struct{ Unit string } }
			Targets                  []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(content, &dashboard); err != nil {
		t.Fatal(err)
	}
	metrics, err := docs.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string][]string{}
	for _, m := range metrics {
		labels[m.Name] = m.Labels
		if m.Kind == "histogram" {
			labels[m.Name+"_bucket"] = append(slices.Clone(m.Labels), "le")
		}
	}
	labels["oncegate_build_info"] = []string{"version", "go"}
	var (
		name     = regexp.MustCompile(`\boncegate_[a-z_]+`)
		grouping = regexp.MustCompile(`by \(([a-z_, ]+)\)`)
		legend   = regexp.MustCompile(`\{\{([a-z]+)\}\}`)
		outside  = []string{"instance", "job"} // Prometheus adds them
		ids      = map[int]bool{}
	)
	for _, metric := range name.FindAllString(string(content), -1) { // also of the choice at its top
		if _, ok := labels[metric]; !ok {
			t.Errorf("the dashboard asks for %s, which does not exist", metric)
		}
	}
	for _, p := range dashboard.Panels {
		if ids[p.ID] {
			t.Errorf("%s has the id %d of another panel", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
			t.Errorf("%q has no title, description, unit or query", p.Title)
		}
		for _, target := range p.Targets {
			if target.LegendFormat == "" {
				t.Errorf("%s: no legend for %s", p.Title, target.Expr)
			}
			var has []string
			for _, metric := range name.FindAllString(target.Expr, -1) {
				has = append(has, labels[metric]...)
			}
			asked := []string{}
			for _, m := range grouping.FindAllStringSubmatch(target.Expr, -1) {
				asked = append(asked, strings.Split(m[1], ", ")...)
			}
			for _, m := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
				asked = append(asked, m[1])
			}
			for _, label := range asked {
				if !slices.Contains(has, label) && !slices.Contains(outside, label) {
					t.Errorf("%s: %s has no label %s", p.Title, target.Expr, label)
				}
			}
		}
	}
}
