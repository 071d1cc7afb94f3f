package console

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// showRetention shows how long everything is kept, and whether prune keeps up.
func showRetention(r *request) (*page, error) {
	kept, err := call(r, &control.ListRetention, control.ListRetentionRequest{TenantFilter: control.TenantFilter{Tenant: r.query("tenant")}})
	if err != nil {
		return nil, err
	}
	p := &page{Title: "Retention", Lead: "How long Oncegate keeps everything, and how prune keeps up."}
	if r.access.Tenant == "" {
		pruning, err := call(r, &control.ShowPruning, control.NoRequest{})
		if err != nil {
			return nil, err
		}
		backlog := cell{Text: "nothing is overdue"}
		if pruning.Backlog > 0 {
			backlog = cell{Text: count(int(pruning.Backlog), "event is overdue", "events are overdue"), Detail: "the oldest for " + roughly(time.Duration(pruning.OldestDueSeconds*float64(time.Second)))}
		}
		p.Blocks = append(p.Blocks, block{ID: "pruning", Title: "Pruning", Facts: []fact{
			is("Backlog", backlog), is("Recorded ever", number(pruning.Incoming)), is("Removed ever", number(pruning.Drained)),
		}, Table: tableOf(r, read.Page[prune.Walk]{Data: pruning.Walks}, "Prune has not run yet.", []string{"Walk", "Began", "Completed"}, func(w prune.Walk) []cell {
			return []cell{text(walkText(w.Name)), instant(w.BeganAt), instantOf(w.CompletedAt)}
		})})
		runs, err := call(r, &control.ListPruneRuns, control.ListPruneRunsRequest{PageRequest: r.pageRequest()})
		if err != nil {
			return nil, err
		}
		p.Blocks = append(p.Blocks, block{ID: "runs", Title: "Passes", Table: tableOf(r, runs, "No pass of the last 30 days removed anything.", []string{"Began", "Took", "Removed", "By", "How it ended"}, pruneRunCells)})
	}
	now := block{ID: "now", Title: "Prune now", Text: "Prune runs by itself. By hand, from a machine with the database's address, without the bound of a request:", Code: "oncegate prune --dry-run"}
	if r.access.Tenant == "" && r.may(control.Admin) {
		now.Links = []link{{Text: "Count what would go", Href: "/retention/prune"}}
	}
	p.Blocks = append(p.Blocks, block{ID: "classes", Title: "By source", Table: tableOf(r, kept, "No server was started with a source yet.", []string{"Source", "Class", "Bodies", "Effects", "Refusals", "Keys"}, func(k control.Retention) []cell {
		return []cell{text(k.Source), text(k.Class), text(k.Body), text(k.Effects), text(k.Refusals), text(k.Tombstone)}
	})}, now)
	return p, nil
}

// walkText describes a walk of prune: a table, and how long its rows are kept.
func walkText(name string) string {
	what, kept, _ := strings.Cut(name, "/")
	if d, err := time.ParseDuration(kept); err == nil {
		kept = "kept for " + roughly(d)
	}
	if kept == "" {
		return words(what)
	}
	return words(what) + ", " + words(kept)
}

func pruneRunCells(run prune.PastRun) []cell {
	var removed int64
	tables := make([]string, 0, len(run.Rows))
	for _, name := range slices.Sorted(maps.Keys(run.Rows)) {
		removed += run.Rows[name]
		tables = append(tables, words(name)+" "+groupDigits(run.Rows[name]))
	}
	what := cell{Text: count(int(removed), "row", "rows"), Detail: strings.Join(tables, ", ")}
	if len(run.Partitions) > 0 {
		what.Text += " and " + count(len(run.Partitions), "day of bodies", "days of bodies")
	}
	ended := cell{Text: "complete"}
	switch {
	case len(run.Contended) > 0:
		ended = cell{Text: "others held locks", Detail: strings.Join(run.Contended, ", ")}
	case !run.Complete:
		ended = cell{Text: "its time was over", Detail: "the next pass went on"}
	}
	by := cell{Text: or(run.Actor, "itself")}
	if len(run.Include) > 0 {
		by.Detail = "including " + strings.Join(run.Include, ", ")
	}
	return []cell{instant(run.BeganAt), text(roughly(run.EndedAt.Sub(run.BeganAt))), what, by, ended}
}
