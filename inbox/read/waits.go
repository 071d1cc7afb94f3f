package read

import (
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// scanEffectRow reads a row of a list of effects.
func scanEffectRow(row pgx.CollectableRow) (EffectRow, error) {
	e, err := pgx.RowToStructByPos[EffectRow](row)
	e.Waits = e.waits()
	return e, err
}

// waits says in one sentence what the effect waits for. It is empty if the effect does not wait.
func (e *EffectRow) waits() string {
	switch inbox.EffectState(e.State) {
	case inbox.EffectClaimed:
		return "An attempt is under way."
	case inbox.EffectHeld:
		if reasons.Reason(e.Reason).ForPerson() {
			return "It waits until a person decides about its order."
		}
		return "It waits for an earlier effect of its stream."
	case inbox.EffectPending, inbox.EffectRetry:
	default:
		return ""
	}
	switch reasons.Reason(e.Reason) { //nolint:exhaustive // the others are failures
	case reasons.Paused:
		return "It waits until its route or its target " + e.Target + " is resumed."
	case reasons.Breaker:
		return "Target " + e.Target + " fails, so no attempt is made until its next try." + e.lastAnswer()
	case reasons.Rate:
		return "It waits for its turn: target " + e.Target + " has reached its rate, or asked for a pause."
	case reasons.Saturated:
		return "It waits for its turn: target " + e.Target + " has as many attempts under way as it may have."
	case reasons.Route:
		return "It waits for a process that knows its route."
	case reasons.KeyMissing:
		return "It waits for a process that has its sealing key."
	case reasons.ParentOpen:
		return "It waits until it is known what the earlier call did."
	case reasons.ListOpen:
		return "It waits for the items of its list."
	case reasons.Resent:
		return "It is sent again: its next attempt has not begun yet."
	}
	if e.Attempts == 0 {
		return "Its first attempt has not begun yet."
	}
	return "It waits for another attempt." + e.lastAnswer()
}

// lastAnswer is a sentence about how the last attempt failed.
func (e *EffectRow) lastAnswer() string {
	failure := ""
	if r := reasons.Reason(e.Reason); r != reasons.Breaker {
		failure = strings.ReplaceAll(e.Reason, "_", " ")
	}
	switch {
	case e.Code != "":
		return " The last answer was " + e.Code + "."
	case failure != "":
		return " The last attempt failed: " + failure + "."
	}
	return ""
}
