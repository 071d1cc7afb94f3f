package control

import (
	"fmt"
)

// Explained is the part of a request that says why something is done. Who does it is the caller's [Access].
type Explained struct {
	// Reason goes into the audit: one line of at most 1,024 bytes.
	Reason string `json:"reason,omitempty"`
}

// Match is the part of a request that names the state that a decision is about: the ETag of the answer that showed it. The
// API takes it from the If-Match header.
type Match struct {
	// IfMatch is the tag; empty takes the thing as it is.
	IfMatch string `json:"-"`
}

// SetIfMatch is for the API, which has the tag in a header.
func (m *Match) SetIfMatch(tag string) { m.IfMatch = tag }

// GetIfMatch is for the client, which sends the tag in a header.
func (m Match) GetIfMatch() string { return m.IfMatch }

// check refuses a decision about a state that is not the one that was shown.
func (m Match) check(tag string) error {
	if m.IfMatch == "" || m.IfMatch == "*" || m.IfMatch == tag {
		return nil
	}
	return &Problem{Code: CodePrecondition, Detail: "it has changed since it was looked at; nothing was changed"}
}

// changed makes of a decision that came too late what its caller asked for: [CodePrecondition] where they named the state.
func (m Match) changed(err error) error {
	if problem := ProblemOf(err); m.IfMatch != "" && problem.Code == CodeConflict {
		return &Problem{Code: CodePrecondition, Detail: problem.Error()}
	}
	return err
}

// step is how many effects one request of a bulk decision takes at most, in some short transactions. Its answer says what is left.
const step = 1000

// bounded reads the most that a bulk decision may take: most, unless the request says less.
func bounded(asked, otherwise, most int) (int, error) {
	switch {
	case asked == 0:
		return otherwise, nil
	case asked < 0 || asked > most:
		return 0, invalid("max %d: must be from 1 to %d", asked, most)
	}
	return asked, nil
}

// moreThan says that nothing was changed since too much would have been.
func moreThan(most int) string {
	return fmt.Sprintf("more than %d match and nothing was changed; narrow the filter or raise max", most)
}

// acts are the operations that change something.
func acts() []Definition {
	return []Definition{
		&DiscardDeadLetters, &ReplayDeadLetters,
		&ResolveEffect, &ResolveEffects, &ApplyEffect, &SkipEffect,
		&SkipStream, &UnblockStream, &ApplyStream,
		&AdmitConflict, &ReverifyRefusals,
		&PlanReplay, &RunReplay, &CancelReplay,
		&EraseEvent,
		&RevokeSession, &RevokeSessions,
		&AddSuppression, &ImportSuppressions, &RemoveSuppression,
		&DiscardOutbox, &DiscardRoute, &MoveRoute, &RunPrune, &TestSource,
	}
}
