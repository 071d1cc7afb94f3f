package console

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox/pause"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/pretty"
)

// listSources shows the sources.
func listSources(r *request) (*page, error) {
	found, err := call(r, &control.ListSources, control.ListSourcesRequest{TenantFilter: control.TenantFilter{Tenant: r.query("tenant")}})
	if err != nil {
		return nil, err
	}
	routes, err := call(r, &control.ListRoutes, control.ListRoutesRequest{})
	if err != nil {
		return nil, err
	}
	return &page{Title: "Sources", Lead: "The endpoints that take deliveries. The configuration file defines them, or an operator with oncegate sources create.", Blocks: []block{
		{Table: tableOf(r, found, "No server was started with a source yet.", []string{"Source", "Provider", "Address", "State", "Since"}, func(s control.Source) []cell {
			configured := "configured"
			switch {
			case s.Move != nil && s.Move.Leaves:
				configured = s.Move.Text()
			case !s.Configured:
				configured = "not configured"
			case s.Disabled:
				configured = "disabled"
			case s.Paused != nil:
				configured = "paused"
			case s.Shadow:
				configured = "shadow"
			}
			return []cell{
				{Text: s.Name, Href: "/sources/" + url.PathEscape(s.Name), Detail: s.Tenant}, linked(s.Provider, "/providers/"+url.PathEscape(s.Provider)), code(or(s.Address, s.From)), state(configured), instant(s.CreatedAt),
			}
		})},
		{ID: "routes", Title: "Routes", Table: routeTable(r, routes)},
	}}, nil
}

// sourceView has the data of the page of a source.
type sourceView struct {
	source   *control.SourceDetail
	provider *control.Provider         // nil if it is not known any more
	stored   *control.SourceDefinition // nil if the file defines the source
	events   read.Page[read.EventRow]
	refusals read.Page[read.RefusalRow]
	would    read.Page[read.EffectGroup] // what a source in shadow mode would have done
}

// showSource shows one source, and waits for its first delivery if there was none.
func showSource(r *request) (*page, error) {
	name := r.PathValue("name")
	var v sourceView
	var err error
	if v.source, err = call(r, &control.ShowSource, control.SourceReference{Name: name}); err != nil {
		return nil, err
	}
	v.provider, err = call(r, &control.ShowProvider, control.ProviderReference{Name: v.source.Provider})
	if err != nil && control.ProblemOf(err).Code != control.CodeNotFound {
		return nil, err
	}
	if v.source.Stored && r.access.Tenant == "" {
		stored, err := call(r, &control.ShowDefinition, control.SourceReference{Name: name})
		if err != nil {
			return nil, err
		}
		v.stored = &stored
	}
	few := control.PageRequest{Limit: 5}
	if v.events, err = call(r, &control.ListEvents, control.ListEventsRequest{PageRequest: few, Source: name}); err != nil {
		return nil, err
	}
	if v.refusals, err = call(r, &control.ListRefusals, control.ListRefusalsRequest{PageRequest: few, RefusalFilter: control.RefusalFilter{Source: name}}); err != nil {
		return nil, err
	}
	if v.source.Shadow {
		if v.would, err = call(r, &control.GroupEffects, control.EffectFilter{Source: name, Since: r.now.Add(-shadowShown)}); err != nil {
			return nil, err
		}
	}
	return sourcePage(r, &v), nil
}

// shadowShown is how far back the page of a source in shadow mode counts its effects.
const shadowShown = 24 * time.Hour

// shadowBlocks say what shadow mode means, and count what the source would have done.
func shadowBlocks(r *request, v *sourceView) []block {
	s := v.source
	if !s.Shadow {
		return nil
	}
	return []block{
		{Notice: &notice{
			Kind: "info", Text: "This source is in shadow mode: its events are recorded, and none of their effects is carried out.",
			Detail: "It takes over when shadow is removed from its configuration.",
		}},
		{ID: "shadow", Title: "What it would have done in 24 hours", Table: tableOf(r, v.would, "None of its events had an effect.", []string{"Effects", "Route", "State", "Last"}, func(g read.EffectGroup) []cell {
			return []cell{
				counted(g.Count, g.More), {Text: g.Route, Href: to("/effects", "source", s.Name, "route", g.Route, "state", g.State, "reason", g.Reason), Detail: g.Target},
				{State: g.State, Detail: words(g.Reason)}, instant(g.Last),
			}
		})},
	}
}

func sourcePage(r *request, v *sourceView) *page {
	s := v.source
	p := &page{Title: s.Name, Lead: join("Source of "+s.Provider, s.Tenant), Back: &link{Text: "Sources", Href: "/sources"}}
	if s.Move != nil {
		p.Blocks = append(p.Blocks, block{Notice: &notice{Kind: "info", Text: "This source " + s.Move.Text() + "."}})
	}
	switch {
	case s.Move != nil && s.Move.Leaves:
	case !s.Configured:
		p.Blocks = append(p.Blocks, block{Notice: &notice{Kind: "warn", Text: "The configuration of this server does not have this source: it takes no deliveries."}})
	case s.Disabled:
		p.Blocks = append(p.Blocks, block{Notice: &notice{Kind: "warn", Text: "The source is disabled: it answers as if there were none. The effects of its events continue."}})
	case len(v.events.Data) == 0 && len(v.refusals.Data) == 0 && s.Address == "":
		p.Live = url.Values{"list": {"arrival"}, "source": {s.Name}}.Encode()
		p.Refresh = 15 // also without a live list
		p.Blocks = append(p.Blocks, block{ID: "waiting", Notice: &notice{Kind: "info", Text: "Waiting for the first message.", Detail: "This page turns into its event when it is recorded."}})
	case len(v.events.Data) == 0 && len(v.refusals.Data) == 0:
		p.Live = url.Values{"list": {"arrival"}, "source": {s.Name}}.Encode()
		p.Refresh = 15 // also without a live list
		p.Blocks = append(p.Blocks, block{ID: "waiting", Notice: &notice{
			Kind: "info", Text: "Waiting for the first delivery.", Detail: "Follow the steps below and have the provider send a test. This page turns into the event, or into the refusal with the probable fault.",
		}})
	}
	p.Blocks = append(p.Blocks, shadowBlocks(r, v)...)
	p.Blocks = append(p.Blocks, pauseBlocks(r, pause.Thing{Kind: pause.Source, Name: s.Name}, s.Paused, "/sources/"+url.PathEscape(s.Name), sourcePauseMeans)...)
	p.Blocks = append(p.Blocks, storedBlocks(r, v.stored)...)
	p.Blocks = append(p.Blocks, brokerBlocks(s)...)
	settings := sourceSettings(s)
	if connected := len(v.events.Data) > 0; connected { // what connects the sender comes below what runs
		p.Blocks = append(append(append(p.Blocks, runningBlocks(r, v)...), settings), connectBlocks(r, v)...)
	} else {
		p.Blocks = append(append(append(p.Blocks, connectBlocks(r, v)...), runningBlocks(r, v)...), settings)
	}
	return p
}

// connectBlocks say how to connect the sender of a source.
func connectBlocks(r *request, v *sourceView) (out []block) {
	s := v.source
	if s.Address == "" { // it only consumes
		return nil
	}
	address := or(s.ExternalURL, "https://<your public address>"+s.Address)
	out = append(out, block{ID: "address", Title: "The address to paste at the provider", Code: address})
	if s.ExternalURL == "" {
		out[len(out)-1].Text = "Put the address in front at which the sender reaches the public listener."
	}
	out = append(out, setupBlock(v))
	if len(s.Secrets) > 0 {
		out = append(out, block{ID: "secrets", Title: "Secrets", Text: "Several may be valid at the same time, the newest first: that is how they are rotated.", Table: tableOf(r, read.Page[control.SecretSlot]{Data: s.Secrets}, "", []string{"Read from", "Credential", "Accepted until"}, func(slot control.SecretSlot) []cell {
			until := instantOf(slot.Until)
			if slot.Until == nil {
				until = text("no end")
			}
			return []cell{code(slot.From), text(slot.Credential), until}
		})})
	}
	out = append(out, testBlock(r, s))
	if s.Reconcile != nil {
		out = append(out, reconcileBlock(s))
	}
	return out
}

// runningBlocks show the recent deliveries of a source and its routes.
func runningBlocks(r *request, v *sourceView) (out []block) {
	s := v.source
	out = append(out, block{ID: "events", Title: "Last events", Table: eventTable(r, unpaged(v.events), "None yet."), Links: []link{{Text: "All events of this source", Href: to("/events", "source", s.Name)}}})
	out = append(out, block{ID: "refusals", Title: "Last refusals", Table: refusalTable(r, unpaged(v.refusals), "None."), Links: []link{{Text: "All refusals of this source", Href: to("/refusals", "source", s.Name)}}})
	out = append(out, block{ID: "routes", Title: "Routes", Table: tableOf(r, read.Page[control.SourceRoute]{Data: s.Routes}, "No route takes its events: they are recorded and nothing is done.", []string{"Route", "Types", "Target", "Order"}, func(route control.SourceRoute) []cell {
		types := or(strings.Join(route.Types, ", "), "all")
		if route.Condition {
			types += ", under a condition"
		}
		return []cell{linked(route.Name, to("/effects", "source", s.Name, "route", route.Name)), text(types), {Text: route.Target, Detail: join(route.Kind, route.Address)}, text(or(route.Order, "none"))}
	})})
	return out
}

// sourceSettings shows the other settings of a source.
func sourceSettings(s *control.SourceDetail) block {
	settings := []fact{is("Retention class", text(s.Class)), is("Known since", instant(s.CreatedAt)), is("Masked members", code(strings.Join(s.Redact, ", "))), is("Operations", text(strings.Join(s.Operations, ", ")))}
	for _, name := range slices.Sorted(maps.Keys(s.Settings)) {
		settings = append(settings, is(words(name), code(strings.Join(s.Settings[name], ", "))))
	}
	return block{ID: "settings", Title: "Settings", Facts: facts(settings...)}
}

// unpaged returns a page of a list without its links, because another page shows the rest.
func unpaged[Row any](p read.Page[Row]) read.Page[Row] { return read.Page[Row]{Data: p.Data} }

// setupBlock describes what to do at the provider.
func setupBlock(v *sourceView) block {
	b := block{ID: "steps", Title: "At the provider"}
	steps := []moment{
		{Title: "Open the page of the provider on which webhooks are registered.", Detail: "Its documentation is linked above."},
		{Title: "Paste the address above, and choose the types of events that the routes below take."},
	}
	if p := v.provider; p != nil {
		switch p.Verifies {
		case "none":
		default:
			steps = append(steps, moment{Title: "Copy the secret that it shows to where the source reads it from.", Detail: "It signs with " + p.Verifies + "; the signature proves the " + words(p.Proves) + "."})
		}
		if p.Retries != "" {
			steps = append(steps, moment{Title: "Have it send a test.", Detail: "It tries a delivery again for " + p.Retries + "."})
		}
		if strings.HasPrefix(p.Docs, "https://") {
			b.Links = []link{{Text: p.Title + ": documentation", Href: p.Docs}, {Text: "What the catalogue knows", Href: "/providers/" + url.PathEscape(p.Name)}}
		}
	}
	b.Story = steps
	return b
}

// shellWord returns a name that is safe in a shell command. Names of sources usually are.
func shellWord(name string) string {
	if strings.ContainsFunc(name, func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' }) {
		return "<source>"
	}
	return name
}

// listProviders shows the catalogue.
func listProviders(r *request) (*page, error) {
	found, err := call(r, &control.ListProviders, control.ListProvidersRequest{Text: r.query("text")})
	if err != nil {
		return nil, err
	}
	return &page{Title: "Providers", Lead: "The senders that Oncegate knows: how each signs, and where it says what an event is.", Blocks: []block{
		{Filter: r.filterOf(field{Name: "text", Label: "Name, title or scheme", Kind: "search", Value: r.query("text")})},
		{Table: tableOf(r, found, "No provider matches.", []string{"Provider", "Verifies", "Proves", "Id", "Order", "Tries again for"}, func(p control.ProviderRow) []cell {
			return []cell{{Text: p.Title, Href: "/providers/" + url.PathEscape(p.Name), Detail: p.Name}, text(p.Verifies), text(words(p.Proves)), text(p.ID), text(p.Order), text(p.Retries)}
		})},
	}}, nil
}

// showProvider shows everything that is known about a provider.
func showProvider(r *request) (*page, error) {
	p, err := call(r, &control.ShowProvider, control.ProviderReference{Name: r.PathValue("name")})
	if err != nil {
		return nil, err
	}
	b := block{ID: "entry", Title: "In full", Body: &body{}}
	if laid, ok := pretty.JSON(p.Entry, pretty.Options{}); ok {
		b.Body.Text = laid.Text
	}
	out := &page{Title: p.Title, Lead: fmt.Sprintf("Use it as provider: %s", p.Name), Back: &link{Text: "Providers", Href: "/providers"}, Blocks: []block{
		{Facts: facts(is("Verifies", text(p.Verifies)), is("The signature proves", text(words(p.Proves))), is("Id of an event", text(p.ID)), is("Order", text(p.Order)), is("Tries again for", text(p.Retries)))},
	}}
	if strings.HasPrefix(p.Docs, "https://") {
		out.Blocks = append(out.Blocks, block{Links: []link{{Text: "Its documentation", Href: p.Docs}}})
	}
	out.Blocks = append(out.Blocks, b)
	return out, nil
}

// backlogText describes the unsettled effects of a route.
func backlogText(b read.RouteBacklog) string {
	var out []string
	for _, one := range []struct {
		n    int
		text string
	}{{b.Waiting, "waiting"}, {b.Claimed, "claimed"}, {b.Dead, "dead"}, {b.Indeterminate, "indeterminate"}} {
		if one.n > 0 {
			out = append(out, groupDigits(int64(one.n))+" "+one.text)
		}
	}
	if b.Gone {
		out = append(out, "the route is gone")
	}
	return or(strings.Join(out, ", "), "nothing")
}
