package control

import (
	"context"
	"strings"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
)

// ListReplaysRequest narrows a list of replays. A zero field does not narrow it.
type ListReplaysRequest struct {
	PageRequest
	TenantFilter

	// State is the state of the replays.
	State string `json:"state,omitempty" flag:"--state only this state:"`
}

// ListReplays lists replays. A replay that is not narrowed to a tenant belongs to the whole
// installation.
var ListReplays = Operation[ListReplaysRequest, read.Page[Replay]]{
	ID: "list_replays", Method: "GET", Path: "/replays", Scope: ReadMetadata,
	Summary: "List replays, newest first. A tenant sees those that are narrowed to it.",
	Do: func(ctx context.Context, s *Service, access Access, r ListReplaysRequest) (page read.Page[Replay], err error) {
		tenant, err := r.TenantFilter.narrow(access)
		if err != nil {
			return page, err
		}
		if err := oneOf("state", r.State, mapped(replay.States(), func(s replay.State) string { return string(s) })); err != nil {
			return page, err
		}
		rows, err := readPage(r.PageRequest, func(at read.PageRequest) (read.Page[replay.Replay], error) {
			return s.replays.List(ctx, replay.Filter{State: replay.State(r.State), Tenant: tenant, Cursor: at.Cursor, Limit: at.Limit})
		})
		if err != nil {
			return page, err
		}
		var open []inbox.ID
		for i := range rows.Data {
			if state := rows.Data[i].State; state == replay.Running || state == replay.Queued {
				open = append(open, rows.Data[i].ID)
			}
		}
		effects, err := s.replays.Effects(ctx, open...)
		return mapPage(rows, func(row replay.Replay) Replay { return newReplay(&row, effects[row.ID]) }), err
	},
}

// Replay is a replay with its progress.
type Replay struct {
	replay.Replay

	// ETA is how long the rest of a running replay will take, such as 1m30s. It is empty if that is
	// unknown.
	ETA string `json:"eta,omitempty"`

	// Effects counts the effects that the replay has restarted or created, by how they stand now. Lists have it only of replays that
	// are running or queued. It is absent as long as there are none.
	Effects *replay.Effects `json:"effects,omitempty"`

	// Waits says in one line what the replay or its effects wait for, if that is an operator or a target that fails. It is empty
	// otherwise. Of items that are not taken yet, lists leave it out.
	Waits string `json:"waits,omitempty"`
}

// ShowReplay shows one replay.
var ShowReplay = Operation[IDRequest, *Replay]{
	ID: "show_replay", Method: "GET", Path: "/replays/{id}", Scope: ReadMetadata,
	Summary: "Show one replay: its summary, how far it has come, and where its effects stand now.",
	Do: func(ctx context.Context, s *Service, access Access, r IDRequest) (*Replay, error) {
		found, err := s.replay(ctx, access, r.ID)
		if err != nil {
			return nil, err
		}
		effects, err := s.replays.Effects(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		if e := effects[r.ID]; found.State == replay.Queued && (e == nil || e.Open == 0) { // the last one has ended since
			if found, err = s.replay(ctx, access, r.ID); err != nil {
				return nil, err
			}
		}
		out := newReplay(found, effects[r.ID])
		paused, err := s.replays.PausedAt(ctx, found)
		if paused != "" {
			out.Waits = strings.TrimPrefix(out.Waits+", the next item until "+paused+" is resumed", ", ")
		}
		return &out, err
	},
}

func newReplay(r *replay.Replay, effects *replay.Effects) Replay {
	out := Replay{Replay: *r, Effects: effects}
	if effects != nil {
		out.Waits = effects.Waits()
	}
	if left, ok := r.ETA(); ok {
		out.ETA = left.String()
	}
	return out
}

// replay reads a replay that the access may see.
func (s *Service) replay(ctx context.Context, access Access, id inbox.ID) (*replay.Replay, error) {
	found, err := s.replays.Status(ctx, id)
	if err != nil {
		return nil, err
	}
	return found, access.owns(found.Scope.Tenant, "replay", id.String())
}

// ListReplayItemsRequest narrows the items of a replay. A zero field does not narrow them.
type ListReplayItemsRequest struct {
	PageRequest
	IDRequest

	// Action is what the replay does, or would do, with the items.
	Action replay.Action `json:"action,omitempty"`

	// LeftOut is why the replay leaves the items out.
	LeftOut replay.LeftOut `json:"left_out,omitempty"`

	// Verdict is what today's configuration would make of the items.
	Verdict replay.Verdict `json:"verdict,omitempty" flag:"--verdict only this verdict:"`

	// Outcome is the outcome of the items.
	Outcome replay.ItemOutcome `json:"outcome,omitempty" flag:"--outcome only this outcome:"`

	// Open selects the items on which a run has not acted yet.
	Open bool `json:"open,omitempty" flag:"--open only those that a run has not acted on yet"`
}

// ReplayItem is an item of a replay.
type ReplayItem struct {
	replay.Item

	// PayloadHidden says that the diff was left out because the access lacks read-payload.
	PayloadHidden bool `json:"payload_hidden,omitempty"`
}

// ListReplayItems lists the items of a replay.
var ListReplayItems = Operation[ListReplayItemsRequest, read.Page[ReplayItem]]{
	ID: "list_replay_items", Method: "GET", Path: "/replays/{id}/items", Scope: ReadMetadata,
	Summary: "List the items of a replay in the order in which they are carried out, with what would change.",
	Do: func(ctx context.Context, s *Service, access Access, r ListReplayItemsRequest) (page read.Page[ReplayItem], err error) {
		if _, err := s.replay(ctx, access, r.ID); err != nil {
			return page, err
		}
		rows, err := readPage(r.PageRequest, func(at read.PageRequest) (read.Page[replay.Item], error) {
			return s.replays.Items(ctx, r.ID, replay.ItemFilter{
				Action: r.Action, LeftOut: r.LeftOut, Verdict: r.Verdict, Outcome: r.Outcome, Open: r.Open, Cursor: at.Cursor, Limit: at.Limit,
			})
		})
		return mapPage(rows, func(row replay.Item) ReplayItem { return ReplayItem{Item: row} }), err
	},
}
