package control

import (
	"fmt"

	"github.com/oncegate/oncegate/inbox"
)

// Explained is the part of a request that says why something is done. The caller's [Access] says who does it. A request that is
// always refused without a reason embeds it with the tag required:"reason".
type Explained struct {
	// Reason goes into the audit: one line of at most 1,024 bytes.
	Reason string `json:"reason,omitempty"`
}

// Match is the part of a request that names the state that a decision is about, by the ETag of the answer that showed
// it. The API takes it from the If-Match header.
type Match struct {
	// IfMatch is the tag. If it is empty, the decision applies to the current state.
	IfMatch string `json:"-"`
}

// SetIfMatch sets the tag, for the API, which receives it in a header.
func (m *Match) SetIfMatch(tag string) { m.IfMatch = tag }

// GetIfMatch returns the tag, for the client, which sends it in a header.
func (m Match) GetIfMatch() string { return m.IfMatch }

// check refuses a decision about a state other than the one that was shown.
func (m Match) check(tag string) error {
	if m.IfMatch == "" || m.IfMatch == "*" || m.IfMatch == tag {
		return nil
	}
	return &Problem{Code: CodePrecondition, Detail: "it has changed since it was looked at, or the ETag in If-Match belongs to something else; nothing was changed"}
}

// one refuses an If-Match for a decision about several things, because an ETag is about one.
func (m Match) one(ids []inbox.ID) error {
	if m.IfMatch == "" || len(ids) == 1 {
		return nil
	}
	return invalid("If-Match is about one thing: name it alone in ids, or leave If-Match out and hand back the seen of a dry run")
}

// changed converts the error of a decision that came too late. It returns [CodePrecondition] if the caller named the
// state, and err unchanged otherwise.
func (m Match) changed(err error) error {
	if problem := ProblemOf(err); m.IfMatch != "" && problem.Code == CodeConflict {
		return &Problem{Code: CodePrecondition, Detail: problem.Error()}
	}
	return err
}

// step is the largest number of effects that one request of a bulk decision handles, in several short transactions. The
// answer says how many are left.
const step = 1000

// bounded returns the limit of a bulk decision: asked, or otherwise if the request names none. It refuses more than
// most.
func bounded(asked, otherwise, most int) (int, error) {
	switch {
	case asked == 0:
		return otherwise, nil
	case asked < 0 || asked > most:
		return 0, invalid("max %d: must be from 1 to %d", asked, most)
	}
	return asked, nil
}

// moreThan says that nothing was changed because more than the limit matched.
func moreThan(most int) string {
	return fmt.Sprintf("more than %d match and nothing was changed; narrow the filter or raise max", most)
}

// acts returns the operations that change something.
func acts() []Definition {
	return []Definition{
		&DiscardDeadLetters, &ReplayDeadLetters,
		&ResolveEffect, &ResolveEffects, &CancelList, &ApplyEffect, &SkipEffect,
		&SkipStream, &UnblockStream, &ApplyStream,
		&AdmitConflict, &DismissConflicts, &ReverifyRefusals, &AcknowledgeRefusals, &Reconcile,
		&PlanReplay, &RunReplay, &CancelReplay,
		&EraseEvent, &EraseEvents, &EraseRefusals,
		&RevokeSession, &RevokeSessions,
		&AddSuppression, &ImportSuppressions, &RemoveSuppression,
		&CreateSource, &UpdateSource, &DisableSource, &EnableSource,
		&PauseSource, &ResumeSource, &PauseRoute, &ResumeRoute, &PauseTarget, &ResumeTarget,
		&DiscardOutbox, &DiscardRoute, &MoveRoute, &RunPrune, &TestSource, &TestTarget, &TestNotifications, &ReloadConfiguration,
	}
}
