package console

import (
	"fmt"
	"strconv"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// routeTable shows routes with their unsettled effects. A removed route has a link to the page that clears it.
func routeTable(r *request, found read.Page[read.RouteBacklog]) *table {
	return tableOf(r, found, "No server was started with a route yet.", []string{"Route", "Target", "State", "Not settled", "Oldest", ""}, func(b read.RouteBacklog) []cell {
		clearIt := linked("Pause or resume it", routeHref(b.Source, b.Route))
		if b.Gone && b.Waiting > 0 && r.may(control.Operate) {
			clearIt = linked("Clear it", to("/routes/clear", "source", b.Source, "route", b.Route))
		}
		return []cell{{Text: b.Route, Href: to("/effects", "source", b.Source, "route", b.Route), Detail: b.Source}, linked(b.Target, targetHref(b.Target)), pauseState(b.Paused), text(backlogText(b)), instantOf(b.Oldest), clearIt}
	})
}

// maxClear is how many effects a page clears at once. Their Seen is sent in a form of at most [maxForm] bytes.
const maxClear = 30_000

// previewClear shows the effects that wait for a removed route, and offers to discard or move them.
func previewClear(r *request) (*page, error) {
	source, name := r.query("source"), r.query("route")
	routes, err := call(r, &control.ListRoutes, control.ListRoutesRequest{Source: source})
	if err != nil {
		return nil, err
	}
	ask := control.DiscardRouteRequest{Source: source, Route: name, DryRun: true, Max: maxClear}
	found, err := call(r, &control.DiscardRoute, ask)
	if err != nil {
		return nil, err
	}
	return clearPage(source, name, routes.Data, &found), nil
}

func clearPage(source, name string, routes []read.RouteBacklog, found *control.ClearedRoute) *page {
	p := &page{
		Title: "Clear the route " + name, Back: &link{Text: "Routes", Href: "/sources#routes"},
		Lead: fmt.Sprintf("No server has this route of %s any more. %s for it, and happen again by themselves once a server with it starts.", source, count(found.Matched, "effect waits", "effects wait")),
	}
	if found.Matched == 0 {
		return p
	}
	n := strconv.Itoa(found.Matched)
	fields := func(more ...field) []field {
		return append([]field{hidden("source", source), hidden("route", name), hidden("seen", string(found.Seen)), hidden("count", n)}, more...)
	}
	b := block{ID: "actions", Forms: []form{{
		ID: "discard", Title: "Discard them", Action: "/routes/discard", Button: "Discard", Closed: true, Danger: true,
		Text: "They never happen. Each has an entry in the audit.", Fields: fields(reasonField(), typedField(n)),
	}}}
	var others []option
	for i := range routes {
		if !routes[i].Gone && routes[i].Source == source && routes[i].Route != name {
			others = append(others, option{Value: routes[i].Route, Text: routes[i].Route + " → " + routes[i].Target})
		}
	}
	move := form{
		ID: "move", Title: "Move them to another route", Action: "/routes/move", Button: "Move", Closed: true, Danger: true,
		Text:   "They keep their idempotency keys. To another target go only those that certainly never happened.",
		Fields: fields(field{Name: "to", Label: "To the route", Kind: "select", Options: others, Required: true}, reasonField(), typedField(n)),
	}
	if len(others) == 0 {
		move.Disabled = "This source has no other route to which they could move."
	}
	b.Forms = append(b.Forms, move)
	p.Blocks = append(p.Blocks, b, block{Links: []link{{Text: "Look at them", Href: to("/effects", "source", source, "route", name)}}})
	return p
}

// clearRoute returns the handler that discards or moves the effects that a preview found.
func clearRoute(done string, step func(*request, control.DiscardRouteRequest) (control.ClearedRoute, error)) func(*request) (*page, error) {
	return func(r *request) (*page, error) {
		why, err := r.why(r.PostFormValue("count"))
		if err != nil {
			return nil, err
		}
		ask := control.DiscardRouteRequest{Explained: why, Source: r.PostFormValue("source"), Route: r.PostFormValue("route"), Seen: control.Seen(r.PostFormValue("seen"))}
		var total control.ClearedRoute
		for n := 0; ask.Seen != "" && n < maxSteps; n++ {
			cleared, err := step(r, ask)
			if err != nil {
				return nil, err
			}
			total.Cleared, total.Stay, ask.Seen = total.Cleared+cleared.Cleared, total.Stay+cleared.Stay, cleared.Seen
		}
		b := block{Notice: &notice{Kind: "good", Text: count(total.Cleared, "effect is ", "effects are ") + done + "."}, Links: []link{{Text: "Routes", Href: "/sources#routes"}}}
		if total.Stay > 0 {
			b.Notice.Detail = count(total.Stay, "effect stays", "effects stay") + ": changed meanwhile, may have happened, or with a place in a list or a sequence."
		}
		return &page{Title: "Cleared", Back: &link{Text: "Routes", Href: "/sources#routes"}, Blocks: []block{b}}, nil
	}
}

func discardRoute(r *request, ask control.DiscardRouteRequest) (control.ClearedRoute, error) {
	return call(r, &control.DiscardRoute, ask)
}

func moveRoute(r *request, ask control.DiscardRouteRequest) (control.ClearedRoute, error) {
	return call(r, &control.MoveRoute, control.MoveRouteRequest{DiscardRouteRequest: ask, To: r.PostFormValue("to")})
}
