package control

import (
	"errors"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/pause"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/inbox/reconcile"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/inbox/suppression"
	"github.com/oncegate/oncegate/internal/app"
)

// The codes of the operations that change something. Callers compare them: never change one.
const (
	CodePrecondition   Code = "precondition_failed"
	CodeDigest         Code = "digest_mismatch"
	CodeBound          Code = "more_than_allowed"
	CodeLocked         Code = "locked"
	CodeCalledAgain    Code = "called_again"
	CodeRouteGone      Code = "route_gone"
	CodeRouteKnown     Code = "route_known"
	CodeKeyReused      Code = "idempotency_key_reused"
	CodeKeyInFlight    Code = "request_in_progress"
	CodeOutcomeUnknown Code = "outcome_unknown"
	CodeAnswerNotKept  Code = "answer_not_kept"
	CodeNotReloaded    Code = "configuration_kept"
	CodeReloading      Code = "reload_in_progress"
)

// actCodes maps the errors of the operations that change something to their codes.
var actCodes = []struct {
	err  error
	code Code
}{
	{inbox.ErrCalledAgain, CodeCalledAgain},
	{inbox.ErrRouteGone, CodeRouteGone},
	{inbox.ErrRouteKnown, CodeRouteKnown},
	{inbox.ErrLocked, CodeLocked},
	{decide.ErrBound, CodeBound},
	{replay.ErrDigest, CodeDigest},
	{inbox.ErrState, CodeConflict},
	{decide.ErrStream, CodeConflict},
	{decide.ErrNotRefused, CodeConflict},
	{replay.ErrState, CodeConflict},
	{prune.ErrInFlight, CodeConflict},
	{pause.ErrUnknown, CodeNotFound},
	{decide.ErrScope, CodeInvalid},
	{replay.ErrScope, CodeInvalid},
	{prune.ErrInclude, CodeInvalid},
	{inbox.ErrUnexplained, CodeInvalid},
	{read.ErrStreamReference, CodeInvalid},
	{decide.ErrNoSessions, CodeInvalid},
	{read.ErrSealed, CodeInvalid},
	{suppression.ErrAddress, CodeInvalid},
	{suppression.ErrEntry, CodeInvalid},
	{app.ErrConfiguration, CodeInvalid},
	{receiver.ErrNotKept, CodeInvalid},
	{reconcile.ErrRunning, CodeLocked},
	{reconcile.ErrLater, CodeUnavailable},
	{reconcile.ErrSender, CodeInvalid},
	{reconcile.ErrEndless, CodeInvalid},
	{reconcile.ErrPeriod, CodeInvalid},
	{reconcile.ErrNoneInterrupted, CodeInvalid},
	{gate.ErrOverloaded, CodeUnavailable},
	{gate.ErrUnavailable, CodeUnavailable},
}

// actProblem converts an error of an operation that changes something into a Problem. It returns
// nil for any other error.
func actProblem(err error) *Problem {
	for _, row := range actCodes {
		if errors.Is(err, row.err) {
			return &Problem{Code: row.code, Detail: err.Error()}
		}
	}
	return nil
}
