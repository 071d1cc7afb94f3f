package console

import (
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/internal/control"
)

// showRetention shows how long everything is kept, and how prune keeps up.
func showRetention(r *request) (*page, error) {
	kept, err := call(r, &control.ListRetention, control.ListRetentionRequest{TenantFilter: control.TenantFilter{Tenant: r.query("tenant")}})
	if err != nil {
		return nil, err
	}
	p := &page{Title: "Retention", Lead: "How long everything is kept, and how prune keeps up with what is past its horizon."}
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
		}, Table: tableOf(r, inbox.Page[prune.Walk]{Data: pruning.Walks}, "Prune has not run yet.", []string{"Walk", "Began", "Completed"}, func(w prune.Walk) []cell {
			return []cell{text(walkText(w.Name)), instant(w.BeganAt), instantOf(w.CompletedAt)}
		})})
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

// walkText says what a walk of prune looks at: a table, and how long its rows are kept.
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
