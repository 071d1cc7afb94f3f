package control

import (
	"context"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
)

// RunReplayRequest names the plan that is run.
type RunReplayRequest struct {
	Match
	Explained `required:"reason"`

	// ID identifies the plan.
	ID inbox.ID `json:"id"`

	// Digest is the digest that the plan showed, or at least its first 8 characters. It is
	// required.
	Digest string `json:"digest" flag:"--digest the digest that the plan printed"`

	// Rate is the largest number of items per second. 0 is as many as live deliveries leave room
	// for.
	Rate float32 `json:"rate,omitempty" flag:"--rate items a second at most; 0 is as many as live deliveries leave room for"`
}

// RunReplay runs a planned replay.
var RunReplay = Operation[RunReplayRequest, replay.Replay]{
	ID: "run_replay", Method: "POST", Path: "/replays/{id}/run", Scope: Operate,
	Summary: "Run a planned replay, if it is the one with the digest. The workers carry it out; one that runs already is woken.",
	Why:     "why is it replayed?",
	Do: func(ctx context.Context, s *Service, access Access, r RunReplayRequest) (replay.Replay, error) {
		shown, err := s.replayOf(ctx, access, r.ID)
		if err == nil {
			err = r.check(shown.Tag())
		}
		if err != nil {
			return replay.Replay{}, err
		}
		return s.runReplay(ctx, access, r)
	},
}

func (s *Service) runReplay(ctx context.Context, access Access, r RunReplayRequest) (out replay.Replay, err error) {
	if r.Rate < 0 || r.Rate > 1e6 {
		return out, invalid("rate %g: must be from 0 to 1000000 items a second", r.Rate)
	}
	if r.Digest == "" {
		return out, invalid("digest is missing: give at least the first %d characters of the plan's", replay.MinDigest)
	}
	started, err := s.runs.Start(ctx, replay.StartRequest{ID: r.ID, Digest: r.Digest, Actor: access.Actor, Reason: r.Reason, Rate: r.Rate})
	if err != nil {
		return out, r.changed(err)
	}
	return *started, nil
}
