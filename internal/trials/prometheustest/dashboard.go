package prometheustest

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// Query is a query of a panel, with Grafana's variables replaced.
type Query struct{ Panel, Expr string }

// Dashboard returns the queries of a dashboard of Grafana, with a range for their rates.
func Dashboard(t *testing.T, file, rate string) (out []Query) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(content, &dashboard); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", rate, "$source", ".*")
	for _, p := range dashboard.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("the panel %q has no query", p.Title)
		}
		for _, target := range p.Targets {
			expr := variables.Replace(target.Expr)
			if strings.Contains(expr, "$") {
				t.Errorf("%s: an unknown variable in %s", p.Title, expr)
			}
			out = append(out, Query{p.Title, expr})
		}
	}
	return out
}
