package console

import (
	"net/url"
	"time"

	"github.com/oncegate/oncegate/inbox/attention"
	"github.com/oncegate/oncegate/internal/control"
)

// needs has, for each kind of thing that waits, the page on which an operator decides about it, and how urgent it is.
var needs = map[attention.Kind]struct{ href, tone string }{
	attention.Undeclared:    {"/overview", "bad"},
	attention.Indeterminate: {"/unknown", "bad"},
	attention.Failing:       {"/targets", "bad"},
	attention.Dead:          {"/dead", "bad"},
	attention.Unusable:      {"/dead?error_class=admission", "bad"},
	attention.Blocked:       {"/streams?blocked=true", "bad"},
	attention.Gaps:          {"/streams?gap=true", "warn"},
	attention.Undecided:     {"/streams#undecided", "warn"},
	attention.Conflicts:     {"/conflicts?waiting=true", "warn"},
	attention.RefusedOutbox: {"/operations#outbox", "warn"},
	attention.Stranded:      {"/sources#routes", "warn"},
	attention.NotReloaded:   {"/nodes", "bad"},
	attention.Silent:        {"/overview#sources", "warn"},
	attention.Refusals:      {"/refusals?since=24h", "warn"},
	attention.Suspected:     {"/events?since=24h", "warn"},
	attention.Plans:         {"/replays?state=planned", ""},
	attention.Paused:        {"/sources", "warn"},
	attention.Standstills:   {"/replays?state=running", "bad"},
}

// start shows what needs the user.
func start(r *request) (*page, error) {
	found, err := call(r, &control.ShowAttention, control.ShowAttentionRequest{TenantFilter: control.TenantFilter{Tenant: r.query("tenant")}})
	if err != nil {
		return nil, err
	}
	p := startPage(found, r.now)
	if found.LastEvent == nil {
		sources, err := call(r, &control.ListSources, control.ListSourcesRequest{})
		if err != nil {
			return nil, err
		}
		p.Blocks = append(p.Blocks, firstSteps(sources.Data))
	}
	if r.console.cfg.Buffered {
		status, err := call(r, &control.ShowStatus, control.NoRequest{})
		if err != nil {
			return nil, err
		}
		p.Blocks = append(p.Blocks, bufferBlocks(status)...)
	}
	return p, nil
}

// firstSteps says what to do next in an installation that no event has reached yet.
func firstSteps(sources []control.Source) block {
	b := block{ID: "first", Title: "What to do next", Text: "Events come in by a source: an address of this installation, to which one sender posts."}
	if len(sources) == 0 {
		b.Story = []moment{
			{Title: "Define a source", Detail: "Add it below sources in the configuration file, with its provider, its secret and its routes, and reload. The providers are in the catalogue.", Href: "/providers"},
			{Title: "Open its page", Detail: "It says what to enter at the sender, and waits for the first delivery.", Href: "/sources"},
		}
		return b
	}
	b.Text = "No event has come yet. Connect the sender of a source: its page has the address to enter there, checks the secret, sends a test, and turns into the first event."
	for i, source := range sources {
		if i == shownSources {
			b.Links = []link{{Text: "All sources", Href: "/sources"}}
			break
		}
		b.Story = append(b.Story, moment{Title: "Connect " + source.Name, Detail: join("Provider "+source.Provider, source.Address), Href: "/sources/" + url.PathEscape(source.Name)})
	}
	return b
}

// shownSources is how many sources the start page of a new installation names.
const shownSources = 5

func startPage(found attention.Attention, now time.Time) *page {
	p := &page{Title: "Needs you", Refresh: 20}
	last := "No event came yet."
	if found.LastEvent != nil {
		last = "The last event came " + ago(*found.LastEvent, now) + "."
	}
	if len(found.Data) == 0 {
		p.Blocks = append(p.Blocks, block{Notice: &notice{Kind: "good", Text: "Nothing waits.", Detail: last}})
		return p
	}
	p.Lead = last
	b := block{}
	for _, item := range found.Data {
		need, known := needs[item.Kind]
		if !known {
			need.href = "/"
		}
		t := tile{Count: groupDigits(item.Count), Text: item.Kind.Noun(item.Count), Href: need.href, Kind: need.tone, Detail: item.Kind.Action()}
		if item.More {
			t.Count += "+"
		}
		if item.Oldest != nil {
			t.Oldest = *item.Oldest
		}
		for i := range item.Failures {
			f := &item.Failures[i]
			t.Places = append(t.Places, cell{Text: f.Target, Detail: f.Words()})
		}
		for i := range item.Pauses {
			p := &item.Pauses[i]
			t.Places = append(t.Places, cell{Text: p.Words(), Detail: pausedText(p), Href: pausedHref(p)})
		}
		for i, place := range item.Places {
			if i == shownPlaces {
				t.Places = append(t.Places, cell{Text: count(len(item.Places)-i, "more place", "more places")})
				break
			}
			t.Places = append(t.Places, cell{Text: join(place.Source, place.Route), Detail: groupDigits(place.Count)})
		}
		b.Tiles = append(b.Tiles, t)
	}
	p.Blocks = append(p.Blocks, b)
	return p
}

// shownPlaces is how many places of one kind the start page names.
const shownPlaces = 3
