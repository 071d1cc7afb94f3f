package replay

// State is where a replay stands. Stored: never change.
type State string

// The states of a replay. Stored: never change.
const (
	// Planning: its items are being written.
	Planning State = "planning"
	// Planned: it waits to be run, until it expires.
	Planned State = "planned"
	// Running: its items are being carried out.
	Running State = "running"
	// Cancelled: what is not done stays as it was.
	Cancelled State = "cancelled"
	// Done: every item has had its turn.
	Done State = "done"
	// Expired: it was not run in time.
	Expired State = "expired"
)

// Action is what a run does to an item. Stored: never change.
type Action string

// The actions. Stored: never change.
const (
	// ActionReplay gives the effect fresh attempts under its own key.
	ActionReplay Action = "replay"
	// ActionNewKey gives it fresh attempts under a new key: the target cannot
	// recognise it.
	ActionNewKey Action = "new_key"
	// ActionCreate makes an effect for a route that takes the event today.
	ActionCreate Action = "create"
	// ActionNone leaves the effect as it is; [LeftOut] says why.
	ActionNone Action = "none"
)

// LeftOut is why a plan leaves an effect as it is. Stored: never change.
type LeftOut string

// Why effects are left out. Stored: never change.
const (
	// LeftOutDone: it happened.
	LeftOutDone LeftOut = "done"
	// LeftOutIndeterminate: it may have happened.
	LeftOutIndeterminate LeftOut = "indeterminate"
	// LeftOutInProgress: it goes on by itself.
	LeftOutInProgress LeftOut = "in_progress"
	// LeftOutSettled: it was superseded or skipped.
	LeftOutSettled LeftOut = "settled"
	// LeftOutBodyGone: the body was pruned, nothing could be sent.
	LeftOutBodyGone LeftOut = "body_gone"
	// LeftOutNoRoute: no route leads there today.
	LeftOutNoRoute LeftOut = "no_route"
	// LeftOutCannotRender: today's configuration cannot make the request.
	LeftOutCannotRender LeftOut = "cannot_render"
	// LeftOutKeyWindow: it may have happened, and the target no longer knows its key.
	LeftOutKeyWindow LeftOut = "key_window"
	// LeftOutOrdered: its route is ordered and new to the event, and places in a
	// sequence are given when events come.
	LeftOutOrdered LeftOut = "ordered"
	// LeftOutCalledAgain: a later call names the effect's operation as its parent, and
	// has done the same, will do it, or is what should be replayed.
	LeftOutCalledAgain LeftOut = "called_again"
	// LeftOutEffectsPruned: the event and its route are older than effects are kept, so that
	// the route may have had an effect of it, whatever became of that, which was pruned.
	LeftOutEffectsPruned LeftOut = "effects_pruned"
	// LeftOutListed: it is in the plan already, by another of its duplicates.
	LeftOutListed LeftOut = "listed"
	// LeftOutOwnerGone: it is a duplicate, and its owner was pruned.
	LeftOutOwnerGone LeftOut = "owner_gone"
)

// ItemOutcome is what became of an item. Stored: never change.
type ItemOutcome string

// The outcomes. Stored: never change.
const (
	// ItemReplayed: the effect has fresh attempts.
	ItemReplayed ItemOutcome = "replayed"
	// ItemCreated: the effect was made.
	ItemCreated ItemOutcome = "created"
	// ItemLeftOut: as the plan said.
	ItemLeftOut ItemOutcome = "left_out"
	// ItemChanged: the effect was no longer as it was planned, and was left alone.
	ItemChanged ItemOutcome = "changed"
	// ItemDecidedSince: after the plan was made, a person or a probe decided something
	// about the effect or its event, and the effect was left as they left it. The
	// item's detail says who, when, what and why.
	ItemDecidedSince ItemOutcome = "decided_since"
	// ItemGone: the effect was pruned or erased meanwhile.
	ItemGone ItemOutcome = "gone"
	// ItemBodyGone: its body was.
	ItemBodyGone ItemOutcome = "body_gone"
	// ItemExists: somebody else made the effect, or it was moved to another route.
	ItemExists ItemOutcome = "exists"
)

// ItemOutcomes are all of them.
func ItemOutcomes() []ItemOutcome {
	return []ItemOutcome{ItemReplayed, ItemCreated, ItemLeftOut, ItemChanged, ItemDecidedSince, ItemGone, ItemBodyGone, ItemExists}
}
