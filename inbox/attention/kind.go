package attention

// Kind is a kind of thing that waits for a person. Part of the API: never change.
type Kind string

// The kinds, in the order in which people are shown them: what may have happened twice or not at all comes first.
const (
	// Undeclared databases were copied or restored from a dump: nothing is carried out until somebody declares what they are.
	Undeclared Kind = "undeclared"
	// Indeterminate effects have an unknown outcome: somebody asks their target and resolves them.
	Indeterminate Kind = "indeterminate"
	// Dead effects are not tried again: somebody mends the cause and replays or discards them.
	Dead Kind = "dead"
	// Unusable events were recorded and nothing could be done for them: somebody replays or discards them.
	Unusable Kind = "unusable"
	// Blocked streams are held up by an effect at rest: somebody replays or skips it.
	Blocked Kind = "blocked"
	// Gaps are streams that have waited for a missing number for more than five minutes.
	Gaps Kind = "gap"
	// Undecided effects are held until a person chooses their order.
	Undecided Kind = "undecided"
	// Conflicts are payloads under the key of another one that nobody has admitted.
	Conflicts Kind = "conflict"
	// Refused outbox rows were emitted and can never be admitted.
	RefusedOutbox Kind = "outbox_refused"
	// Stranded effects wait for a route that no live configuration has.
	Stranded Kind = "stranded"
	// Silent sources have had no event for longer than is usual for them.
	Silent Kind = "silent"
	// Refusals are requests of the last 24 hours that were not accepted and are kept.
	Refusals Kind = "refusal"
	// Suspected events of the last 24 hours seem to repeat others under another id. Only their number is known.
	Suspected Kind = "suspected"
	// Plans of replays wait for somebody to run them, and have not expired.
	Plans Kind = "plan"
	// Standstills are replays that are being planned or run and have not moved for ten minutes.
	Standstills Kind = "replay_standstill"
)

// Kinds are all of them, in their order.
func Kinds() []Kind {
	return []Kind{
		Undeclared, Indeterminate, Dead, Unusable, Blocked, Gaps, Undecided, Conflicts, RefusedOutbox, Stranded, Silent, Refusals, Suspected, Plans, Standstills,
	}
}
