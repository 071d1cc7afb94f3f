package control

import (
	"context"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
)

// CancelReplayRequest names the replay that is cancelled.
type CancelReplayRequest struct {
	Match
	Explained `required:"reason"`

	// ID identifies the replay.
	ID inbox.ID `json:"id"`
}

// CancelReplay cancels a replay that is planned or running.
var CancelReplay = Operation[CancelReplayRequest, replay.Replay]{
	ID: "cancel_replay", Method: "POST", Path: "/replays/{id}/cancel", Scope: Operate,
	Summary: "Cancel a replay. Its finished items stay done, and the others do not change.",
	Why:     "why is it cancelled?",
	Do: func(ctx context.Context, s *Service, access Access, r CancelReplayRequest) (out replay.Replay, err error) {
		shown, err := s.replayOf(ctx, access, r.ID)
		if err == nil {
			err = r.check(shown.Tag())
		}
		if err != nil {
			return out, err
		}
		cancelled, err := s.runs.Cancel(ctx, replay.CancelRequest{ID: r.ID, Actor: access.Actor, Reason: r.Reason})
		if err != nil {
			return out, r.changed(err)
		}
		return *cancelled, nil
	},
}
