package console

import (
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// unsettledOf has the unsettled effects of one source or of one of its routes.
type unsettledOf struct {
	read.UnsettledRoute

	// whole means that it is the sum over the routes of the source, and has no route.
	whole bool
}

// add adds the unsettled effects of a route.
func (u *unsettledOf) add(r *read.UnsettledRoute) {
	u.Held, u.HeldMore = u.Held+r.Held, u.HeldMore || r.HeldMore
	if u.Held > read.MaxUnsettledSeen {
		u.Held, u.HeldMore = read.MaxUnsettledSeen, true
	}
	if r.Oldest != nil && (u.Oldest == nil || r.Oldest.Before(*u.Oldest)) {
		u.Oldest = r.Oldest
	}
}

// held returns the number of held effects for people: "10,000+" if there are more.
func (u *unsettledOf) held() string {
	if u.HeldMore {
		return groupDigits(u.Held) + "+"
	}
	return groupDigits(u.Held)
}

// unsettledRows returns the sources with their unsettled effects, each before its routes.
func unsettledRows(routes []read.UnsettledRoute) (rows []unsettledOf, total unsettledOf) {
	source := -1
	for i := range routes {
		r := &routes[i]
		if source < 0 || rows[source].Source != r.Source {
			source = len(rows)
			rows = append(rows, unsettledOf{UnsettledRoute: read.UnsettledRoute{Source: r.Source}, whole: true})
		}
		rows[source].add(r)
		rows = append(rows, unsettledOf{UnsettledRoute: *r})
		total.add(r)
	}
	return rows, total
}

// unsettledTiles returns the tiles for effects that wait now.
func unsettledTiles(r *request, u *read.Unsettled) []tile {
	_, total := unsettledRows(u.Routes)
	oldest := tile{Count: "none", Text: "oldest unsettled", Href: "#unsettled"}
	if total.Oldest != nil {
		oldest.Count = roughly(r.now.Sub(*total.Oldest))
	}
	if u.More {
		oldest.Detail = "not all were looked at"
	}
	return []tile{
		{Count: total.held(), Text: noun(total.Held, "effect held", "effects held"), Href: to("/effects", "state", "held", "source", r.query("source"), "route", r.query("route")), Kind: toneOf(total.Held, "warn")},
		oldest,
	}
}

// unsettledBlock shows by source and route how many effects are held, and how old the oldest unsettled effect
// is.
func unsettledBlock(r *request, u *read.Unsettled, most int) block {
	rows, _ := unsettledRows(u.Routes)
	b := block{ID: "unsettled", Title: "Unsettled now"}
	if most == 0 {
		b.Text = "Effects that are not done yet: they are due, held, dead or of unknown outcome. These are figures of now, not of the window."
	} else { // the routes say all that the overview has room for
		rows = slices.DeleteFunc(rows, func(u unsettledOf) bool { return u.whole })
		slices.SortStableFunc(rows, oldestFirst)
	}
	empty := "Every effect is settled."
	if u.More {
		b.Text = strings.TrimSpace(b.Text + " Not all were looked at: others may be older.")
		empty = "None was found."
	}
	rows, b.Links = first(r, "unsettled", rows, most)
	b.Table = tableOf(r, read.Page[unsettledOf]{Data: rows}, empty, []string{"Source or route", "Held", "Oldest"}, func(u unsettledOf) []cell {
		name := cell{Text: u.Source, Href: to("/effects", "source", u.Source), Detail: "all routes"}
		if !u.whole {
			name = cell{Text: u.Route, Href: to("/effects", "source", u.Source, "route", u.Route), Detail: u.Source}
		}
		return []cell{name, {Text: u.held(), Number: true}, instantOf(u.Oldest)}
	})
	return b
}

// oldestFirst orders routes by their oldest unsettled effect. Those with none come last.
func oldestFirst(a, b unsettledOf) int {
	switch {
	case a.Oldest == nil && b.Oldest == nil:
		return 0
	case a.Oldest == nil:
		return 1
	case b.Oldest == nil:
		return -1
	}
	return a.Oldest.Compare(*b.Oldest)
}

// pruningBlock says in one line whether pruning keeps up.
func pruningBlock(p *control.Pruning) block {
	line := "Nothing is overdue."
	switch {
	case len(p.Walks) == 0:
		line = "Prune has not run yet."
	case p.Backlog >= prune.MostBacklog:
		line = groupDigits(prune.MostBacklog) + "+ events are overdue, the oldest for " + roughly(time.Duration(p.OldestDueSeconds*float64(time.Second))) + "."
	case p.Backlog > 0:
		line = count(int(p.Backlog), "event is", "events are") + " overdue, the oldest for " + roughly(time.Duration(p.OldestDueSeconds*float64(time.Second))) + "."
	}
	line += " Recorded ever: " + groupDigits(p.Incoming) + "; removed ever: " + groupDigits(p.Drained) + "."
	return block{ID: "pruning", Text: "Pruning: " + line, Links: []link{{Text: "How pruning keeps up", Href: "/retention#pruning"}}}
}
