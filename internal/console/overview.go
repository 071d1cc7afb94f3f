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
	byRoute := r.query("route") != ""
	tiles := effectTiles(&total)
	if !byRoute {
		tiles = append(deliveryTiles(r, &f.Sums, &total), tiles...)
	}
	p.Blocks = append(p.Blocks,
		block{Links: windows},
		block{Filter: r.filterOf(field{Name: "window", Kind: "hidden", Value: string(window)}, r.textField("source", "Source"), r.textField("route", "Route"), r.textField("tenant", "Tenant"))},
	)
	if byRoute {
		p.Blocks = append(p.Blocks, block{Notice: &notice{
			Kind: "info", Text: "Deliveries belong to a source and not to a route, so events, duplicates, conflicts, refusals and acknowledgements are left out.", Detail: "Clear the route to see them.",
		}})
	}
	p.Blocks = append(p.Blocks, block{Tiles: append(tiles, unsettledTiles(r, &f.Unsettled)...)})
	series := seriesOf(f)
	charts := []chart{
		series("Effects done", "good", func(c *rollup.Counts) int64 { return c.Done }),
		series("Retries", "warn", func(c *rollup.Counts) int64 { return c.Retried }),
		series("Dead", "bad", func(c *rollup.Counts) int64 { return c.Dead }),
	}
	if !byRoute {
		charts = append([]chart{
			series("Events", "", func(c *rollup.Counts) int64 { return c.Recorded }),
			series("Duplicates blocked", "good", func(c *rollup.Counts) int64 { return c.Duplicates }),
			series("Refused", "warn", func(c *rollup.Counts) int64 { return c.Refused }),
		}, charts...)
	}
	p.Blocks = append(p.Blocks, block{Charts: charts})
	var sources, routes []rollup.Sum
	for _, sum := range f.Rows {
		if sum.Route == "" {
			sources = append(sources, sum)
		} else {
			routes = append(routes, sum)
		}
	}
	if !byRoute {
		p.Blocks = append(p.Blocks, sourcesBlock(r, f, sources))
	}
	p.Blocks = append(p.Blocks, block{ID: "routes", Title: "Routes", Table: tableOf(r, read.Page[rollup.Sum]{Data: routes}, "No effect ended in this time.", []string{"Route", "Done", "Retried", "Dead", "Unknown"}, func(s rollup.Sum) []cell {
		return []cell{
			{Text: s.Route, Href: to("/effects", "source", s.Source, "route", s.Route), Detail: join(s.Source, s.Tenant)}, number(s.Done), number(s.Retried), number(s.Dead), number(s.Indeterminate),
		}
	})}, unsettledBlock(r, &f.Unsettled))
	return p
}

// deliveryTiles shows the counts of deliveries. They are counted by source.
func deliveryTiles(r *request, f *rollup.Sums, total *rollup.Counts) []tile {
	return []tile{
		{Count: groupDigits(total.Recorded), Text: noun(total.Recorded, "event", "events"), Href: to("/events", "source", r.query("source")), Detail: perSecond(f, total.Recorded)},
		{Count: groupDigits(total.Duplicates), Text: noun(total.Duplicates, "duplicate blocked", "duplicates blocked"), Href: to("/events", "source", r.query("source")), Kind: "good"},
		{Count: latency(&total.Acknowledged), Text: "acknowledged at the 95th percentile", Href: "#sources"},
		{Count: groupDigits(total.Refused), Text: "refused", Href: to("/refusals", "source", r.query("source")), Kind: toneOf(total.Refused, "warn")},
		{Count: groupDigits(total.Conflicts), Text: noun(total.Conflicts, "conflict", "conflicts"), Href: to("/conflicts", "source", r.query("source")), Kind: toneOf(total.Conflicts, "warn")},
	}
}

// effectTiles shows the counts of effects. They are counted by route.
func effectTiles(total *rollup.Counts) []tile {
	return []tile{
		{Count: groupDigits(total.Done), Text: noun(total.Done, "effect done", "effects done"), Href: "#routes", Kind: "good"},
		{Count: groupDigits(total.Dead), Text: noun(total.Dead, "effect dead", "effects dead"), Href: "/dead", Kind: toneOf(total.Dead, "bad")},
		{Count: groupDigits(total.Indeterminate), Text: noun(total.Indeterminate, "outcome unknown", "outcomes unknown"), Href: "/unknown", Kind: toneOf(total.Indeterminate, "bad")},
	}
}

// sourcesBlock shows the counts of deliveries by source.
func sourcesBlock(r *request, f *control.Figures, sources []rollup.Sum) block {
	last := map[string]rollup.Activity{}
	for _, a := range f.Activities {
		last[a.Source] = a
	}
	return block{ID: "sources", Title: "Sources", Table: tableOf(r, read.Page[rollup.Sum]{Data: sources}, "Nothing came in this time.", []string{"Source", "Events", "p95", "Duplicates", "Conflicts", "Refused", "Last event"}, func(s rollup.Sum) []cell {
		at := instantOf(last[s.Source].LastEvent)
		if last[s.Source].Silent {
			at.Detail = "silent for longer than usual"
		}
		return []cell{
			{Text: s.Source, Href: to("/events", "source", s.Source), Detail: s.Tenant}, {Text: groupDigits(s.Recorded), Number: true, Detail: perSecond(&f.Sums, s.Recorded)},
			{Text: latency(&s.Acknowledged), Number: true}, number(s.Duplicates), number(s.Conflicts), number(s.Refused), at,
		}
	})}
}

// seriesOf returns a function that draws one count of the figures over time.
func seriesOf(f *control.Figures) func(title, kind string, of func(*rollup.Counts) int64) chart {
	return func(title, kind string, of func(*rollup.Counts) int64) chart {
		points := make([]point, len(f.Points))
		for i := range f.Points {
			points[i] = point{At: f.Points[i].At, N: of(&f.Points[i].Counts)}
		}
		return newChart(title, kind, points, f.Step())
	}
}

// latencySeries draws the time within which a share of the attempts ended.
func latencySeries(f *control.Figures, title string, share float64) chart {
	points := make([]point, len(f.Points))
	for i := range f.Points {
		points[i] = point{At: f.Points[i].At, N: f.Points[i].Attempted.Quantile(share).Milliseconds()}
	}
	return newTimeChart(title, "", points, f.Step())
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
