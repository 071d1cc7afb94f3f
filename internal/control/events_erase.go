package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
)

// EraseEventsRequest says which events are erased permanently: those that a dry run found by a label.
type EraseEventsRequest struct {
	Explained

	TenantFilter

	// Label is the label that a dry run looks for, as name=value. A value alone is looked for under every declared label, and several
	// that have it are refused as ambiguous.
	Label string `json:"label,omitempty" searches:"label"`

	// Source narrows a dry run to the events of a source.
	Source string `json:"source,omitempty"`

	// Seen is what a dry run found.
	Seen Seen `json:"seen,omitempty"`

	// Max is the largest number that a dry run may find; it is refused if it finds more. It defaults to 1,000 and is at
	// most 100,000.
	Max int `json:"max,omitempty"`

	// DryRun counts them and changes nothing.
	DryRun bool `json:"dry_run,omitempty"`
}

// EraseGroup counts the events of one source and type that are to be erased.
type EraseGroup struct {
	Source string `json:"source"`
	Type   string `json:"type"`
	Count  int    `json:"count"`

	// First and Last are when the oldest and the newest of them were received.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// ErasedEvents is the result for the events.
type ErasedEvents struct {
	prune.ErasedMany

	// Matched is how many events a dry run found or Seen named. Groups counts the events of a dry run by source and type, sorted.
	Matched int          `json:"matched"`
	Groups  []EraseGroup `json:"groups,omitempty"`

	// Digest identifies the events that a dry run found: another dry run that finds exactly these has the same one.
	Digest string `json:"digest,omitempty"`

	// Left is how many the request did not handle: repeat it with Seen. For a dry run it is all that were found.
	Left int  `json:"left"`
	Seen Seen `json:"seen,omitempty"`
}

// eraseWithin is how long one request erases events.
const eraseWithin = 10 * time.Second

// EraseEvents erases the content of events that a dry run found by a label.
var EraseEvents = Operation[EraseEventsRequest, ErasedEvents]{
	ID: "erase_events", Method: "POST", Path: "/events/erase", Scope: Admin,
	Summary: "Erase the content of all events with a label for good, and keep their keys. Find them with dry_run, then send back its seen. It cannot be undone.",
	Why:     "who asked for it?", Confirm: "erase",
	Do: func(ctx context.Context, s *Service, access Access, r EraseEventsRequest) (out ErasedEvents, err error) {
		if r.Max, err = bounded(r.Max, decide.DefaultDiscards, decide.MaxDiscards); err != nil {
			return out, err
		}
		switch filtered := r.Label != "" || r.Source != "" || r.Tenant != ""; {
		case r.DryRun && r.Seen != "":
			return out, invalid("seen and dry_run exclude each other")
		case r.DryRun && r.Label == "":
			return out, invalid("label is missing: it says whose events are erased")
		case r.DryRun:
			return s.findErasable(ctx, access, r)
		case r.Seen == "":
			return out, invalid("seen is missing: make the request with dry_run first, and hand back its seen")
		case filtered:
			return out, invalid("seen says which: leave label, source and tenant out")
		}
		found, err := r.Seen.read(decide.MaxDiscards)
		if err != nil {
			return out, invalid("%v", err)
		}
		if err := s.lister.CheckTenant(ctx, access.Tenant, sightIDs(found)...); err != nil {
			return out, err
		}
		out.ErasedMany, err = prune.EraseEvents(ctx, s.cfg.Pool, prune.EraseMany{
			Events: sightIDs(found), Within: eraseWithin, Actor: access.Actor, Reason: r.Reason, Keyring: s.cfg.Keyring, Archive: s.cfg.Archive,
		})
		left := found[out.Handled():]
		out.Matched, out.Left, out.Seen = len(found), len(left), seenOf(left)
		return out, err
	},
}

// findErasable finds the events with a label, all of them or none.
func (s *Service) findErasable(ctx context.Context, access Access, r EraseEventsRequest) (out ErasedEvents, err error) {
	tenant, err := r.narrow(access)
	if err != nil {
		return out, err
	}
	filter := read.EventFilter{Source: r.Source, Tenant: tenant, Limit: maxPage}
	if filter.Label, err = s.searchedLabel(ctx, r.Label, filter); err != nil {
		return out, err
	}
	var found []sight
	sum := sha256.New()
	for more := true; more; {
		page, err := s.lister.Events(ctx, filter)
		if err != nil {
			return out, err
		}
		for i := range page.Data {
			e := &page.Data[i]
			found = append(found, sight{id: e.ID, event: true})
			sum.Write(e.ID[:])
			out.Groups = addErasable(out.Groups, e)
		}
		if len(found) > r.Max {
			return ErasedEvents{}, &Problem{Code: CodeBound, Detail: moreThan(r.Max)}
		}
		more, filter.Cursor = page.HasMore, page.Next
	}
	slices.SortFunc(out.Groups, func(a, b EraseGroup) int {
		return strings.Compare(a.Source+"\x00"+a.Type, b.Source+"\x00"+b.Type)
	})
	out.Matched, out.Left, out.Seen = len(found), len(found), seenOf(found)
	out.Digest = hex.EncodeToString(sum.Sum(nil))
	return out, nil
}

// addErasable counts an event, which is older than all before it.
func addErasable(groups []EraseGroup, e *read.EventRow) []EraseGroup {
	at := slices.IndexFunc(groups, func(g EraseGroup) bool { return g.Source == e.Source && g.Type == e.Type })
	if at < 0 {
		at, groups = len(groups), append(groups, EraseGroup{Source: e.Source, Type: e.Type, Last: e.ReceivedAt})
	}
	groups[at].Count, groups[at].First = groups[at].Count+1, e.ReceivedAt
	return groups
}
