package console

import (
	"cmp"
	"fmt"
	"slices"
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
	if whole := r.query("show"); slices.Contains(overviewPanels, whole) {
		return overviewPanelPage(r, found, whole), nil
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
		block{Links: windows, Filter: r.filterOf(field{Name: "window", Kind: "hidden", Value: string(window)}, r.textField("source", "Source"), r.textField("route", "Route"), r.textField("tenant", "Tenant"))},
	)
	if byRoute {
		p.Blocks = append(p.Blocks, block{Notice: &notice{
			Kind: "info", Text: "Deliveries belong to a source and not to a route, so events, duplicates, conflicts, refusals and acknowledgements are left out.", Detail: "Clear the route to see them.",
		}})
	}
	p.Blocks = append(p.Blocks, block{ID: "figures", Tiles: append(tiles, unsettledTiles(r, &f.Unsettled)...)})
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
	panels := block{}
	for _, name := range overviewPanels {
		if panel := overviewPanel(r, f, name, shownOnOverview); name != "sources" || !byRoute {
			panels.Panels = append(panels.Panels, panel)
		}
	}
	p.Blocks = append(p.Blocks, panels)
	return p
}

// overviewPanels are the tables of the overview. A separate page shows the whole of each table.
var overviewPanels = []string{"sources", "routes", "unsettled"}

// shownOnOverview is how many rows of each table the overview shows, so that it fits one screen.
const shownOnOverview = 7

// overviewPanel makes one of the tables, with at most so many rows, or all if most is 0.
func overviewPanel(r *request, f *control.Figures, name string, most int) block {
	if name == "unsettled" {
		return unsettledBlock(r, &f.Unsettled, most)
	}
	var rows []rollup.Sum
	for _, sum := range f.Rows {
		if (sum.Route == "") == (name == "sources") {
			rows = append(rows, sum)
		}
	}
	if name == "sources" {
		return sourcesBlock(r, f, rows, most)
	}
	return routesBlock(r, rows, most)
}

// overviewPanelPage shows one of the tables in full.
func overviewPanelPage(r *request, f *control.Figures, name string) *page {
	b := overviewPanel(r, f, name, 0)
	p := &page{Title: b.Title, Lead: "In the last " + or(r.query("window"), string(rollup.Hour)) + ".", Back: &link{Text: "Overview", Href: r.with("show", "")}}
	if name == "unsettled" {
		p.Lead = ""
	}
	b.Title = ""
	p.Blocks = append(p.Blocks, b)
	return p
}

// first returns at most so many rows, or all if most is 0, and the link to the page with all of them.
func first[Row any](r *request, name string, rows []Row, most int) ([]Row, []link) {
	if most == 0 || len(rows) <= most {
		return rows, nil
	}
	return rows[:most], []link{{Text: fmt.Sprintf("All %s", groupDigits(int64(len(rows)))), Href: r.with("show", name)}}
}

// routesBlock shows the counts of effects by route, those with dead effects first.
func routesBlock(r *request, routes []rollup.Sum, most int) block {
	slices.SortStableFunc(routes, func(a, b rollup.Sum) int {
		return cmp.Or(cmp.Compare(b.Dead+b.Indeterminate, a.Dead+a.Indeterminate), cmp.Compare(b.Retried, a.Retried), cmp.Compare(b.Done, a.Done))
	})
	shown, links := first(r, "routes", routes, most)
	return block{ID: "routes", Title: "Routes", Links: links, Table: tableOf(r, read.Page[rollup.Sum]{Data: shown}, "No effect ended in this time.", []string{"Route", "Done", "Retried", "Dead", "Unknown"}, func(s rollup.Sum) []cell {
		return []cell{
			{Text: s.Route, Href: to("/effects", "source", s.Source, "route", s.Route), Detail: join(s.Source, s.Tenant)}, number(s.Done), number(s.Retried), number(s.Dead), number(s.Indeterminate),
		}
	})}
}

// deliveryTiles shows the counts of deliveries. They are counted by source.
func deliveryTiles(r *request, f *rollup.Sums, total *rollup.Counts) []tile {
	return []tile{
		{Count: groupDigits(total.Recorded), Text: noun(total.Recorded, "event", "events"), Href: to("/events", "source", r.query("source")), Detail: perSecond(f, total.Recorded)},
		{Count: groupDigits(total.Duplicates), Text: noun(total.Duplicates, "duplicate blocked", "duplicates blocked"), Href: to("/events", "source", r.query("source")), Kind: "good"},
		{Count: latency(&total.Acknowledged), Text: "answer time, p95", Href: "#sources"},
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

// sourcesBlock shows the counts of deliveries by source, those with the most events first. The whole table has columns for which
// the overview has no room.
func sourcesBlock(r *request, f *control.Figures, sources []rollup.Sum, most int) block {
	last := map[string]rollup.Activity{}
	for _, a := range f.Activities {
		last[a.Source] = a
	}
	slices.SortStableFunc(sources, func(a, b rollup.Sum) int { return cmp.Compare(b.Recorded, a.Recorded) })
	shown, links := first(r, "sources", sources, most)
	heads := []string{"Source", "Events", "Refused", "Last event"}
	if most == 0 {
		heads = []string{"Source", "Events", "A second", "p95", "Duplicates", "Conflicts", "Refused", "Last event"}
	}
	return block{ID: "sources", Title: "Sources", Links: links, Table: tableOf(r, read.Page[rollup.Sum]{Data: shown}, "Nothing came in this time.", heads, func(s rollup.Sum) []cell {
		at := instantOf(last[s.Source].LastEvent)
		if last[s.Source].Silent {
			at.Detail = "silent"
		}
		name := cell{Text: s.Source, Href: to("/events", "source", s.Source), Detail: s.Tenant}
		if most > 0 {
			return []cell{name, number(s.Recorded), number(s.Refused), at}
		}
		return []cell{
			name, number(s.Recorded), {Text: rate(&f.Sums, s.Recorded), Number: true}, {Text: latency(&s.Acknowledged), Number: true},
			number(s.Duplicates), number(s.Conflicts), number(s.Refused), at,
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

// backlogSeries draw how many effects waited, and for how long the oldest had.
func backlogSeries(f *control.Figures) []chart {
	waiting, oldest := make([]point, len(f.Points)), make([]point, len(f.Points))
	for i := range f.Points {
		p := &f.Points[i]
		waiting[i], oldest[i] = point{At: p.At, N: p.Waiting}, point{At: p.At, N: 1000 * p.OldestSeconds}
	}
	return []chart{
		newLevelChart("Effects that wait", "warn", waiting, f.Step(), groupDigits),
		newTimeChart("The oldest has waited for", "warn", oldest, f.Step()),
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
	return rate(s, n) + " a second"
}

// rate formats how many there are a second.
func rate(s *rollup.Sums, n int64) string { return fmt.Sprintf("%.2g", s.PerSecond(n)) }

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
