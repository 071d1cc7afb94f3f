package console

import (
	"net/url"
	"strings"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// eventStates returns the values that narrow a list of events: the states of effects, and how events were
// admitted.
func eventStates() []string { return append(control.EffectStates(), control.Admissions()...) }

// listEvents shows events, newest first. The address contains the whole filter.
func listEvents(r *request) (*page, error) {
	since, err := r.since("since")
	if err != nil {
		return nil, err
	}
	found, err := call(r, &control.ListEvents, control.ListEventsRequest{
		PageRequest: r.pageRequest(), TenantFilter: control.TenantFilter{Tenant: r.query("tenant")}, Source: r.query("source"), Type: r.query("type"), State: r.query("state"),
		Route: r.query("route"), Label: r.query("label"), Since: since,
	})
	if err != nil {
		return nil, err
	}
	p := eventListPage(r, found)
	if r.query("after") == "" {
		live := url.Values{}
		for _, name := range []string{"source", "tenant", "type", "state", "route", "label"} {
			if v := r.query(name); v != "" {
				live.Set(name, v)
			}
		}
		live.Set("list", "events")
		p.Live = live.Encode()
	}
	return p, nil
}

func eventListPage(r *request, found read.Page[read.EventRow]) *page {
	p := &page{Title: "Events", Blocks: []block{
		{Filter: r.filterOf(
			r.textField("source", "Source"), r.textField("type", "Type"), r.choiceField("state", "State", eventStates()...), r.textField("route", "Route"),
			r.contentField("label", "Label, as name=value, or its value"), r.textField("tenant", "Tenant"), r.sinceField("since", "Since"))},
	}}
	if strings.Contains(r.query("label"), "=") { // a value alone names no label to compare by
		of := r.narrowing("label", "source", "tenant", "since")
		b := block{ID: "labelled", Links: []link{{Text: "Compare with today's configuration", Href: at("/runs", of)}}}
		if r.may(control.Operate) {
			b.Links = append(b.Links, link{Text: "Plan a replay", Href: at("/replays/new", of)})
		}
		p.Blocks = append(p.Blocks, b)
	}
	p.Blocks = append(p.Blocks, block{Table: eventTable(r, found, "No event matches. A delivery that was refused is not an event: look at the refusals.")})
	return p
}

func eventTable(r *request, found read.Page[read.EventRow], empty string) *table {
	return tableOf(r, found, empty, []string{"Received", "Event", "Type", "Effects", "Deliveries"}, func(e read.EventRow) []cell {
		deliveries := number(e.Deliveries)
		if e.Conflicts > 0 {
			deliveries.Detail = count(e.Conflicts, "conflict", "conflicts")
		}
		return []cell{
			instant(e.ReceivedAt), {Text: e.EventID, Href: "/events/" + e.ID.String(), Detail: join(e.Source, e.Tenant)}, text(e.Type), effectMarks(e), deliveries,
		}
	})
}

// effectMarks returns the states of an event's effects, or how the event was admitted if it has none.
func effectMarks(e read.EventRow) cell {
	if len(e.EffectStates) == 0 {
		return state(e.Admission)
	}
	marks := make([]mark, 0, len(e.EffectStates)+1)
	for _, n := range e.EffectStates {
		one := mark{State: n.State}
		if n.Count > 1 {
			one.Count = groupDigits(int64(n.Count))
		}
		marks = append(marks, one)
	}
	if e.MoreEffects {
		marks = append(marks, mark{State: "and more"})
	}
	return cell{Marks: marks}
}

// join joins texts with a separator and leaves out empty ones.
func join(texts ...string) string {
	out := ""
	for _, t := range texts {
		if t != "" && out != "" {
			out += " · "
		}
		out += t
	}
	return out
}
