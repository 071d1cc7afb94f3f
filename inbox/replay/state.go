package replay

// State is the state of a replay. Stored: never change.
type State string

// The states of a replay. Stored: never change.
const (
	// Planning: the items of the plan are being written.
	Planning State = "planning"
	// Planned: the plan can be run until it expires.
	Planned State = "planned"
	// Running: a worker takes the items.
	Running State = "running"
	// Queued: every item was taken, and some of its effects have not ended.
	Queued State = "queued"
	// Cancelled: the remaining effects keep their states.
	Cancelled State = "cancelled"
	// Done: every item was taken, and every effect has ended: it is done, dead, of unknown outcome or settled otherwise.
	Done State = "done"
	// Expired: the plan was not run in time.
	Expired State = "expired"
)

// States returns all states.
func States() []State {
	return []State{Planning, Planned, Running, Queued, Cancelled, Done, Expired}
}

// Action is what a run does to an item. Stored: never change.
type Action string

// The actions. Stored: never change.
const (
	// ActionReplay restarts the effect with new attempts under its own key. An effect that was recorded in shadow mode is
	// evaluated again.
	ActionReplay Action = "replay"
	// ActionNewKey restarts the effect with new attempts under a new key, which the target cannot
	// recognise.
	ActionNewKey Action = "new_key"
	// ActionCarryOut restarts the effect, which was recorded in shadow mode, with new attempts that reach its target.
	ActionCarryOut Action = "carry_out"
	// ActionCreate creates an effect for a route that takes the event today.
	ActionCreate Action = "create"
	// ActionNone does nothing; [LeftOut] says why.
	ActionNone Action = "none"
)

// LeftOut is why a plan leaves out an effect. Stored: never change.
type LeftOut string

// Why effects are left out. Stored: never change.
const (
	// LeftOutDone: the effect happened.
	LeftOutDone LeftOut = "done"
	// LeftOutIndeterminate: the effect may have happened.
	LeftOutIndeterminate LeftOut = "indeterminate"
	// LeftOutInProgress: the effect is pending, held, claimed or waits for a retry.
	LeftOutInProgress LeftOut = "in_progress"
	// LeftOutSettled: the effect was superseded, skipped or a duplicate.
	LeftOutSettled LeftOut = "settled"
	// LeftOutShadow: the effect was skipped in shadow mode and the plan does not include it, or it would be carried out and
	// its source is still in shadow mode.
	LeftOutShadow LeftOut = "shadow"
	// LeftOutBodyGone: the body was removed, so nothing could be sent.
	LeftOutBodyGone LeftOut = "body_gone"
	// LeftOutNoRoute: the route no longer applies today; see [VerdictNoRoute].
	LeftOutNoRoute LeftOut = "no_route"
	// LeftOutCannotRender: today's configuration cannot render the request.
	LeftOutCannotRender LeftOut = "cannot_render"
	// LeftOutKeyWindow: the effect may have happened, and the target no longer knows its key.
	LeftOutKeyWindow LeftOut = "key_window"
	// LeftOutOrdered: the route is ordered and new to the event. Effects get their places
	// in a sequence only when events arrive.
	LeftOutOrdered LeftOut = "ordered"
	// LeftOutCalledAgain: a later call names the effect's operation as its parent, and
	// has done the same, will do it, or is what should be replayed.
	LeftOutCalledAgain LeftOut = "called_again"
	// LeftOutEffectsPruned: the event and the route are older than the retention of effects.
	// The route may have had an effect of the event that was pruned, in any state.
	LeftOutEffectsPruned LeftOut = "effects_pruned"
	// LeftOutListed: the plan already has the effect, because another id of the scope names it too.
	LeftOutListed LeftOut = "listed"
	// LeftOutOwnerGone: the effect is a duplicate, and its owner was pruned.
	LeftOutOwnerGone LeftOut = "owner_gone"
)

// ItemOutcome is the outcome of an item. Stored: never change.
type ItemOutcome string

// The outcomes. Stored: never change.
const (
	// ItemReplayed: the effect got new attempts.
	ItemReplayed ItemOutcome = "replayed"
	// ItemCreated: the effect was created.
	ItemCreated ItemOutcome = "created"
	// ItemLeftOut: the plan left the item out, or since then a new route has become ordered or the source of a shadow effect is
	// in shadow mode again.
	ItemLeftOut ItemOutcome = "left_out"
	// ItemChanged: the effect or its event had changed since the plan, and the run did nothing.
	ItemChanged ItemOutcome = "changed"
	// ItemDecidedSince: after the plan was made, a person or a probe made a decision about
	// the effect or its event, and the run did nothing. The item's detail says who, when,
	// what and why.
	ItemDecidedSince ItemOutcome = "decided_since"
	// ItemGone: the effect or its event was removed after the plan.
	ItemGone ItemOutcome = "gone"
	// ItemBodyGone: the body was removed after the plan.
	ItemBodyGone ItemOutcome = "body_gone"
	// ItemExists: the effect to create already exists, perhaps moved to another route.
	ItemExists ItemOutcome = "exists"
)

// LeftOuts returns all reasons for which a plan leaves out an item.
func LeftOuts() []LeftOut {
	return []LeftOut{
		LeftOutDone, LeftOutIndeterminate, LeftOutInProgress, LeftOutSettled, LeftOutShadow, LeftOutBodyGone, LeftOutNoRoute, LeftOutCannotRender,
		LeftOutKeyWindow, LeftOutOrdered, LeftOutCalledAgain, LeftOutEffectsPruned, LeftOutListed, LeftOutOwnerGone,
	}
}

// ItemOutcomes returns all outcomes.
func ItemOutcomes() []ItemOutcome {
	return []ItemOutcome{ItemReplayed, ItemCreated, ItemLeftOut, ItemChanged, ItemDecidedSince, ItemGone, ItemBodyGone, ItemExists}
}
