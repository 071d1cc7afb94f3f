package control

import (
	"context"
	"fmt"
	"strconv"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/read"
)

// DecideStreamRequest decides about a stream that makes no progress.
type DecideStreamRequest struct {
	Match
	Explained

	// Ref is the stream's id, or source/route/key.
	Ref string `json:"ref" searches:"sequence_key/path"`

	// DryRun returns what would be done and changes nothing.
	DryRun bool `json:"dry_run,omitempty"`
}

// StreamPassed is the result of a decision about a stream.
type StreamPassed struct {
	Stream int64             `json:"stream"`
	Passed decide.StreamPass `json:"passed"`

	// What describes what was given up or passed over, or would be.
	What string `json:"what"`

	// Effects are the effects that were held for an operator, if the decision was about those.
	Effects []inbox.ID `json:"effects,omitempty"`

	// Ended is how many effects are no longer held.
	Ended int `json:"ended,omitempty"`

	// Tag is the value for If-Match after a dry run.
	Tag string `json:"tag,omitempty"`
}

// SkipStream gives up what a stream waits for.
var SkipStream = Operation[DecideStreamRequest, StreamPassed]{
	ID: "skip_stream", Method: "POST", Path: "/streams/{ref}/skip", Scope: Operate,
	Summary: "Give up what a stream waits for: its missing numbers, else the effect that blocks it, else the effects that are held for a person.",
	Why:     "why may the stream continue without it?", Confirm: "skip",
	Do: func(ctx context.Context, s *Service, access Access, r DecideStreamRequest) (StreamPassed, error) {
		return s.passStream(ctx, access, r, decide.StreamSkip)
	},
}

// UnblockStream releases the effects that wait for the one that blocks a stream.
var UnblockStream = Operation[DecideStreamRequest, StreamPassed]{
	ID: "unblock_stream", Method: "POST", Path: "/streams/{ref}/unblock", Scope: Operate,
	Summary: "Let the effects behind the one that blocks a stream go on, and leave that one as it is.",
	Why:     "why may the stream continue without it?", Confirm: "unblock",
	Do: func(ctx context.Context, s *Service, access Access, r DecideStreamRequest) (StreamPassed, error) {
		return s.passStream(ctx, access, r, decide.StreamUnblock)
	},
}

// ApplyStream lets the effects of a stream run that are held for an operator.
var ApplyStream = Operation[DecideStreamRequest, StreamPassed]{
	ID: "apply_stream", Method: "POST", Path: "/streams/{ref}/apply", Scope: Operate,
	Summary: "Let the effects of a stream run that are held for a person.",
	Why:     "why is it right to let it run?", Confirm: "apply",
	Do: func(ctx context.Context, s *Service, access Access, r DecideStreamRequest) (out StreamPassed, err error) {
		stream, err := s.stream(ctx, access, r.Ref)
		if err == nil {
			err = r.check(stream.Tag())
		}
		if err != nil {
			return out, err
		}
		return s.endUndecidedOf(ctx, access, stream, r, decide.UndecidedApply)
	},
}

// stream reads a stream about which the access may decide.
func (s *Service) stream(ctx context.Context, access Access, ref string) (*read.StreamDetail, error) {
	stream, err := s.lister.Stream(ctx, ref)
	if err != nil {
		return nil, err
	}
	if err := s.lister.CheckStreamTenant(ctx, access.Tenant, stream.ID); err != nil {
		return nil, fmt.Errorf("stream %s: %w", ref, inbox.ErrNotFound)
	}
	return stream, nil
}

func (s *Service) passStream(ctx context.Context, access Access, r DecideStreamRequest, as decide.StreamPass) (out StreamPassed, err error) {
	stream, err := s.stream(ctx, access, r.Ref)
	if err == nil {
		err = r.check(stream.Tag())
	}
	if err != nil {
		return out, err
	}
	out = StreamPassed{Stream: stream.ID, Passed: as}
	p := decide.PassStream{Stream: stream.ID, As: as, MissingTo: stream.MissingTo, Actor: access.Actor, Reason: r.Reason}
	switch {
	case stream.BlockedBy != nil:
		p.Blocker = *stream.BlockedBy
		if stream.BlockedByEffect != nil {
			p.Revision = &stream.BlockedByEffect.Revision
		}
		out.What = "effect " + p.Blocker.String() + " is skipped"
		if as == decide.StreamUnblock {
			out.What = "it continues after effect " + p.Blocker.String()
		}
	case as == decide.StreamUnblock:
		return out, &Problem{Code: CodeConflict, Detail: fmt.Sprintf("stream %d is blocked by nothing", stream.ID)}
	case stream.MissingTo == "" && stream.Undecided > 0:
		return s.endUndecidedOf(ctx, access, stream, r, decide.UndecidedSkip)
	case stream.MissingTo == "":
		return out, &Problem{Code: CodeConflict, Detail: fmt.Sprintf("stream %d waits for nothing that could be skipped", stream.ID)}
	default:
		out.What = "number " + missing(stream) + " is given up"
	}
	if r.DryRun {
		out.Tag = stream.Tag()
		return out, nil
	}
	return out, r.changed(decide.New(s.store).PassStream(ctx, p))
}

// missing returns the numbers for which the stream waits.
func missing(d *read.StreamDetail) string {
	if d.MissingFrom == d.MissingTo {
		return d.MissingFrom
	}
	return d.MissingFrom + " to " + d.MissingTo
}

// endUndecidedOf decides about the effects of a stream that are held for an operator.
func (s *Service) endUndecidedOf(ctx context.Context, access Access, stream *read.StreamDetail, r DecideStreamRequest, as decide.UndecidedEnd) (out StreamPassed, err error) {
	page, err := s.lister.Undecided(ctx, read.StreamFilter{Limit: read.MaxHeld}, stream.ID)
	if err != nil {
		return out, err
	}
	rows := page.Data
	if len(rows) == 0 {
		return out, &Problem{Code: CodeConflict, Detail: fmt.Sprintf("stream %d has nothing that waits for a person", stream.ID)}
	}
	ids, revisions := make([]inbox.ID, len(rows)), make(map[inbox.ID]int, len(rows))
	for i := range rows {
		ids[i], revisions[rows[i].Effect] = rows[i].Effect, rows[i].Revision
	}
	what := strconv.Itoa(len(ids)) + " effects are set going"
	if as == decide.UndecidedSkip {
		what = strconv.Itoa(len(ids)) + " effects are skipped"
	}
	out = StreamPassed{Stream: stream.ID, Passed: decide.StreamPass(as), What: what, Effects: ids}
	if r.DryRun {
		out.Tag = stream.Tag()
		return out, nil
	}
	decided, err := s.endUndecided(ctx, access, r.Explained, as, revisions, ids)
	out.Ended = decided.Ended
	return out, r.changed(err)
}
