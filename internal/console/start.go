package console

import (
	"time"

	"github.com/oncegate/oncegate/inbox/attention"
	"github.com/oncegate/oncegate/internal/control"
)

// needs has, for each kind of thing that waits, its names, the page on which an operator decides about it, and
// what to do.
var needs = map[attention.Kind]struct{ one, several, href, action, tone string }{
	attention.Undeclared: {
		"undeclared database", "undeclared databases", "/overview",
		"It was copied or restored, and nothing is carried out: run oncegate history declare.", "bad",
	},
	attention.Indeterminate: {"unknown outcome", "unknown outcomes", "/unknown", "Ask the target, then resolve.", "bad"},
	attention.Failing:       {"failing target", "failing targets", "/targets", "Mend the target: its effects are tried again by themselves. Or pause it.", "bad"},
	attention.Dead:          {"dead letter", "dead letters", "/dead", "Mend the cause, then replay or discard.", "bad"},
	attention.Unusable:      {"unusable event", "unusable events", "/dead?error_class=admission", "Replay or discard.", "bad"},
	attention.Blocked:       {"blocked stream", "blocked streams", "/streams?blocked=true", "Replay or skip what blocks.", "bad"},
	attention.Gaps:          {"stream with a gap", "streams with a gap", "/streams?gap=true", "Wait for the missing number, or give it up.", "warn"},
	attention.Undecided:     {"effect held for you", "effects held for you", "/streams#undecided", "Let it run, or skip it.", "warn"},
	attention.Conflicts:     {"conflict", "conflicts", "/conflicts?waiting=true", "Look at what differs, and admit what is right or dismiss it.", "warn"},
	attention.RefusedOutbox: {"emitted event that cannot be admitted", "emitted events that cannot be admitted", "/operations#outbox", "Open the source to emit, or correct the caller.", "warn"},
	attention.Stranded:      {"stranded effect", "stranded effects", "/sources#routes", "Bring the route back, or clear it.", "warn"},
	attention.Silent:        {"silent source", "silent sources", "/overview#sources", "Ask its provider.", "warn"},
	attention.Refusals:      {"refusal in 24 hours", "refusals in 24 hours", "/refusals?since=24h", "Read the diagnosis, or acknowledge what needs nothing.", "warn"},
	attention.Suspected:     {"suspected replay in 24 hours", "suspected replays in 24 hours", "/events?since=24h", "Somebody may send recorded deliveries again.", "warn"},
	attention.Plans:         {"planned replay", "planned replays", "/replays?state=planned", "Run it, or cancel it.", ""},
	attention.Paused:        {"pause", "pauses", "/sources", "Resume it when its reason is gone.", "warn"},
	attention.Standstills:   {"replay that does not move", "replays that do not move", "/replays?state=running", "Look at the nodes and their logs.", "bad"},
}

// start shows what needs the user.
func start(r *request) (*page, error) {
	found, err := call(r, &control.ShowAttention, control.ShowAttentionRequest{TenantFilter: control.TenantFilter{Tenant: r.query("tenant")}})
	if err != nil {
		return nil, err
	}
	return startPage(found, r.now), nil
}

func startPage(found attention.Attention, now time.Time) *page {
	p := &page{Title: "Needs you", Refresh: 20}
	last := "No event came yet."
	if found.LastEvent != nil {
		last = "The last event came " + ago(*found.LastEvent, now) + "."
	}
	if len(found.Items) == 0 {
		p.Blocks = append(p.Blocks, block{Notice: &notice{Kind: "good", Text: "Nothing waits.", Detail: last}})
		return p
	}
	p.Lead = last
	b := block{}
	for _, item := range found.Items {
		need, known := needs[item.Kind]
		if !known {
			need.several, need.one, need.href = words(string(item.Kind)), words(string(item.Kind)), "/"
		}
		t := tile{Count: groupDigits(item.Count), Text: need.several, Href: need.href, Kind: need.tone, Detail: need.action}
		if item.Count == 1 {
			t.Text = need.one
		}
		if item.More {
			t.Count += "+"
		}
		if item.Oldest != nil {
			t.Oldest = *item.Oldest
		}
		for i := range item.Failures {
			f := &item.Failures[i]
			t.Places = append(t.Places, cell{Text: f.Target, Detail: failureText(f)})
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

// failureText says what waits for a target that fails.
func failureText(f *attention.Failure) string {
	return count(int(f.Effects), "effect waits", "effects wait") + " since " + f.Oldest.UTC().Format("2006-01-02 15:04 UTC") + ", " + f.Answer()
}

// shownPlaces is how many places of one kind the start page names.
const shownPlaces = 3
