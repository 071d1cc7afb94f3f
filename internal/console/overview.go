package console

import (
	"fmt"
	"time"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/rollup"
	"github.com/oncegate/oncegate/internal/control"
)

// showOverview shows how many events arrive, and how their effects end.
func showOverview(r *request) (*page, error) {
	window := rollup.Window(or(r.query("window"), string(rollup.Hour)))
	found, err := call(r, &control.ShowFigures, control.ShowFiguresRequest{
		TenantFilter: control.TenantFilter{Tenant: r.query("tenant")}, Source: r.query("source"), Route: r.query("route"), Window: window,
	})
	if err != nil {
		return nil, err
	}
	p := overviewPage(r, found, window)
	if r.access.Tenant == "" {
		pruning, err := call(r, &control.ShowPruning, control.NoRequest{})
		if err != nil {
			return nil, err
		}
		p.Blocks = append(p.Blocks, pruningBlock(pruning))
	}
	return p, nil
}

func overviewPage(r *request, f *control.Figures, window rollup.Window) *page {
	p := &page{Title: "Overview", Lead: "Counted by every process, and written every ten seconds."}
	var windows []link
	for _, w := range rollup.Windows() {
		windows = append(windows, link{Text: string(w), Href: r.with("window", string(w)), Current: w == window})
	}
	total := f.Total()
	p.Blocks = append(p.Blocks,
		block{Links: windows},
		block{Filter: r.filterOf(field{Name: "window", Kind: "hidden", Value: string(window)}, r.textField("source", "Source"), r.textField("route", "Route"), r.textField("tenant", "Tenant"))},
		block{Tiles: append([]tile{
			{Count: groupDigits(total.Recorded), Text: noun(total.Recorded, "event", "events"), Href: to("/events", "source", r.query("source")), Detail: perSecond(&f.Sums, total.Recorded)},
			{Count: groupDigits(total.Duplicates), Text: noun(total.Duplicates, "duplicate blocked", "duplicates blocked"), Href: to("/events", "source", r.query("source")), Kind: "good"},
			{Count: latency(&total.Acknowledged), Text: "acknowledged at the 95th percentile", Href: "#sources"},
			{Count: groupDigits(total.Refused), Text: "refused", Href: to("/refusals", "source", r.query("source")), Kind: toneOf(total.Refused, "warn")},
			{Count: groupDigits(total.Conflicts), Text: noun(total.Conflicts, "conflict", "conflicts"), Href: to("/conflicts", "source", r.query("source")), Kind: toneOf(total.Conflicts, "warn")},
			{Count: groupDigits(total.Done), Text: noun(total.Done, "effect done", "effects done"), Href: "#routes", Kind: "good"},
			{Count: groupDigits(total.Dead), Text: noun(total.Dead, "effect dead", "effects dead"), Href: "/dead", Kind: toneOf(total.Dead, "bad")},
			{Count: groupDigits(total.Indeterminate), Text: noun(total.Indeterminate, "outcome unknown", "outcomes unknown"), Href: "/unknown", Kind: toneOf(total.Indeterminate, "bad")},
		}, unsettledTiles(r, &f.Unsettled)...)},
	)
	series := func(title, kind string, of func(*rollup.Counts) int64) chart {
		points := make([]point, len(f.Points))
		for i := range f.Points {
			points[i] = point{At: f.Points[i].At, N: of(&f.Points[i].Counts)}
		}
		return newChart(title, kind, points, f.Step())
	}
	p.Blocks = append(p.Blocks, block{Charts: []chart{
		series("Events", "", func(c *rollup.Counts) int64 { return c.Recorded }),
		series("Duplicates blocked", "good", func(c *rollup.Counts) int64 { return c.Duplicates }),
		series("Effects done", "good", func(c *rollup.Counts) int64 { return c.Done }),
		series("Retries", "warn", func(c *rollup.Counts) int64 { return c.Retried }),
		series("Refused", "warn", func(c *rollup.Counts) int64 { return c.Refused }),
		series("Dead", "bad", func(c *rollup.Counts) int64 { return c.Dead }),
	}})
	var sources, routes []rollup.Sum
	for _, sum := range f.Rows {
		if sum.Route == "" {
			sources = append(sources, sum)
		} else {
			routes = append(routes, sum)
		}
	}
	last := map[string]rollup.Activity{}
	for _, a := range f.Activities {
		last[a.Source] = a
	}
	p.Blocks = append(p.Blocks, block{ID: "sources", Title: "Sources", Table: tableOf(r, read.Page[rollup.Sum]{Data: sources}, "Nothing came in this time.", []string{"Source", "Events", "p95", "Duplicates", "Conflicts", "Refused", "Last event"}, func(s rollup.Sum) []cell {
		at := instantOf(last[s.Source].LastEvent)
		if last[s.Source].Silent {
			at.Detail = "silent for longer than usual"
		}
		return []cell{
			{Text: s.Source, Href: to("/events", "source", s.Source), Detail: s.Tenant}, {Text: groupDigits(s.Recorded), Number: true, Detail: perSecond(&f.Sums, s.Recorded)},
			{Text: latency(&s.Acknowledged), Number: true}, number(s.Duplicates), number(s.Conflicts), number(s.Refused), at,
		}
	})})
	p.Blocks = append(p.Blocks, block{ID: "routes", Title: "Routes", Table: tableOf(r, read.Page[rollup.Sum]{Data: routes}, "No effect ended in this time.", []string{"Route", "Done", "Retried", "Dead", "Unknown"}, func(s rollup.Sum) []cell {
		return []cell{
			{Text: s.Route, Href: to("/effects", "source", s.Source, "route", s.Route), Detail: join(s.Source, s.Tenant)}, number(s.Done), number(s.Retried), number(s.Dead), number(s.Indeterminate),
		}
	})}, unsettledBlock(r, &f.Unsettled))
	return p
}

func perSecond(s *rollup.Sums, n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%.2g a second", s.PerSecond(n))
}

// latency formats the 95th percentile.
func latency(l *rollup.Latency) string {
	if l.Count() == 0 {
		return "none"
	}
	return l.Quantile(0.95).Round(time.Millisecond).String()
}

// toneOf returns the tone of a number that should be 0.
func toneOf(n int64, tone string) string {
	if n == 0 {
		return ""
	}
	return tone
}
