package console

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/pause"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/rollup"
	"github.com/oncegate/oncegate/internal/control"
)

// listTargets shows the targets.
func listTargets(r *request) (*page, error) {
	found, err := call(r, &control.ListTargets, control.ListTargetsRequest{})
	if err != nil {
		return nil, err
	}
	return &page{Title: "Targets", Lead: "Where effects happen. They are made in the configuration file.", Blocks: []block{
		{Table: tableOf(r, found, "No server was started with a target yet.", []string{"Target", "State", "Not settled", "Oldest", "Routes"}, func(t control.Target) []cell {
			return []cell{{Text: t.Name, Href: targetHref(t.Name), Detail: join(t.Kind, t.Address)}, targetState(&t), text(targetBacklog(&t)), instantOf(t.Oldest), text(count(len(t.Routes), "route", "routes"))}
		})},
	}}, nil
}

// pauseState is the cell that says whether something is paused.
func pauseState(p *pause.Pause) cell {
	if p == nil {
		return text("")
	}
	return cell{State: "paused", Detail: join(string(p.Kind), "by "+p.By)}
}

// targetState is the cell that says whether a target is paused, or fails so often that processes make no attempts at it.
func targetState(t *control.Target) cell {
	if t.Paused == nil && len(t.OpenBreakers) > 0 {
		return cell{State: "breaker open", Detail: breakerText(t)}
	}
	return pauseState(t.Paused)
}

// breakerText names the processes whose breaker is open.
func breakerText(t *control.Target) string {
	if len(t.OpenBreakers) == 0 {
		return ""
	}
	return "in " + strings.Join(t.OpenBreakers, ", ")
}

// targetBacklog describes the unsettled effects of a target.
func targetBacklog(t *control.Target) string {
	return backlogText(read.RouteBacklog{Waiting: t.Waiting, Claimed: t.Claimed, Dead: t.Dead, Indeterminate: t.Indeterminate})
}

// showTarget shows one target.
func showTarget(r *request) (*page, error) {
	t, err := call(r, &control.ShowTarget, control.TargetReference{Name: r.PathValue("name")})
	if err != nil {
		return nil, err
	}
	window := rollup.Window(or(r.query("window"), string(rollup.Hour)))
	figures, err := call(r, &control.ShowFigures, control.ShowFiguresRequest{Target: t.Name, Window: window})
	if err != nil {
		return nil, err
	}
	return targetPage(r, t, figures, window), nil
}

func targetPage(r *request, t *control.TargetDetail, figures *control.Figures, window rollup.Window) *page {
	p := &page{Title: t.Name, Lead: join(or(t.Kind, "not configured"), t.Address), Back: &link{Text: "Targets", Href: "/targets"}, Refresh: 20}
	p.Blocks = append(p.Blocks, pauseBlocks(r, pause.Thing{Kind: pause.Target, Name: t.Name}, t.Paused, targetHref(t.Name), effectPauseMeans)...)
	p.Blocks = append(p.Blocks, remedyBlocks(t)...)
	failed := "no attempt"
	if n := t.Attempts.Done + t.Attempts.Retried + t.Attempts.Dead + t.Attempts.Indeterminate; n > 0 {
		failed = fmt.Sprintf("%.0f %% of %s", 100*t.Failed, count(int(n), "attempt", "attempts"))
	}
	var windows []link
	for _, w := range rollup.Windows() {
		windows = append(windows, link{Text: string(w), Href: r.with("window", string(w)), Current: w == window})
	}
	series := seriesOf(figures)
	p.Blocks = append(p.Blocks,
		block{ID: "backlog", Facts: facts(
			is("Not settled", text(targetBacklog(&t.Target))), is("Oldest", instantOf(t.Oldest)), is("Next try", instantOf(t.NextTry)), is("Failed in the last hour", text(failed)),
			is("Breaker open", text(breakerText(&t.Target))),
			is("Attempts took", text(tookText(&t.Attempts.Attempted))),
		), Links: windows, Charts: backlogSeries(figures)},
		block{ID: "attempts", Title: "Attempts", Links: windows, Charts: []chart{
			series("Effects done", "good", func(c *rollup.Counts) int64 { return c.Done }),
			series("Failed, and tried again", "warn", func(c *rollup.Counts) int64 { return c.Retried }),
			series("Dead", "bad", func(c *rollup.Counts) int64 { return c.Dead }),
			series("Outcome unknown", "bad", func(c *rollup.Counts) int64 { return c.Indeterminate }),
			latencySeries(figures, "Half of the attempts took up to", 0.5),
			latencySeries(figures, "95 % of the attempts took up to", 0.95),
		}},
		block{ID: "answers", Title: "Last failures", Table: answerTable(r, t)},
		block{ID: "waits", Title: "What waits after a failure", Table: effectTable(r, read.Page[read.EffectRow]{Data: t.Waits}, "Nothing."), Links: []link{
			{Text: "All that wait for another attempt", Href: to("/effects", "target", t.Name, "state", "retry")}, {Text: "Dead letters", Href: to("/dead", "target", t.Name)},
		}},
		block{ID: "routes", Title: "Routes", Table: routeTable(r, read.Page[read.RouteBacklog]{Data: t.Backlogs})},
	)
	p.Blocks = append(p.Blocks, testTargetBlocks(r, t)...)
	return p
}

// tookText says how long attempts took.
func tookText(l *rollup.Latency) string {
	if l.Count() == 0 {
		return ""
	}
	return fmt.Sprintf("half of them up to %s, 95 %% up to %s", l.Quantile(0.5).Round(time.Millisecond), l.Quantile(0.95).Round(time.Millisecond))
}

// answerTable lists how the last attempts that failed ended.
func answerTable(r *request, t *control.TargetDetail) *table {
	return tableOf(r, read.Page[read.LastAttempt]{Data: t.Answers}, "None of the effects above, and no dead letter.", []string{"Ended", "Answer", "Why", "Effect", "Process"}, func(a read.LastAttempt) []cell {
		return []cell{instant(a.FinishedAt), code(a.Code), {Text: words(a.Reason), Detail: remedyOf(a.Reason, t.Name, a.Code).mend}, linked("effect", effectLink(a.Effect)), text(a.Node)}
	})
}

// remedyBlocks say why the effects that wait have failed, and what to change: once for each reason and answer.
func remedyBlocks(t *control.TargetDetail) (out []block) {
	seen := map[string]bool{}
	for i := range t.Waits {
		e := &t.Waits[i]
		if key := e.Reason + " " + e.Code; !seen[key] && e.Reason != string(reasons.Paused) && e.Reason != string(reasons.Breaker) {
			seen[key] = true
			found := remedyOf(e.Reason, t.Name, e.Code)
			out = append(out, block{Notice: &notice{Kind: "bad", Text: found.why, Detail: found.mend}})
		}
	}
	return out
}

// showRoute shows one route with its backlog.
func showRoute(r *request) (*page, error) {
	source, route := r.PathValue("source"), r.PathValue("route")
	found, err := call(r, &control.ListRoutes, control.ListRoutesRequest{Source: source})
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(found.Data, func(b read.RouteBacklog) bool { return b.Route == route })
	if at < 0 {
		return nil, fmt.Errorf("route %s/%s: %w", source, route, inbox.ErrNotFound)
	}
	b := &found.Data[at]
	p := &page{Title: route, Lead: join("Route of "+source, "to "+b.Target), Back: &link{Text: "Routes", Href: "/sources#routes"}}
	p.Blocks = append(p.Blocks, pauseBlocks(r, pause.Thing{Kind: pause.Route, Name: source + "/" + route}, b.Paused, routeHref(source, route), effectPauseMeans)...)
	p.Blocks = append(p.Blocks, block{
		ID: "backlog", Facts: facts(is("Target", linked(b.Target, targetHref(b.Target))), is("Not settled", text(backlogText(*b))), is("Oldest", instantOf(b.Oldest))),
		Links: []link{{Text: "Its effects", Href: to("/effects", "source", source, "route", route)}},
	})
	return p, nil
}
