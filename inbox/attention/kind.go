package attention

// Kind is a kind of row that waits for a person. Part of the API: never change.
type Kind string

// The kinds, in the order in which people see them: effects that may have happened twice or not at all come first.
const (
	// Undeclared databases were copied or restored from a dump: nothing is carried out until an operator declares what
	// they are.
	Undeclared Kind = "undeclared"
	// Indeterminate effects have an unknown outcome: an operator asks their target and resolves them.
	Indeterminate Kind = "indeterminate"
	// Failing targets have effects that have waited for another attempt for more than a minute: an operator mends the target.
	Failing Kind = "failing"
	// Dead effects are not tried again: an operator repairs the cause and replays or discards them.
	Dead Kind = "dead"
	// Unusable events were recorded but could not be used: an operator replays or discards them.
	Unusable Kind = "unusable"
	// Blocked streams are blocked by an effect at rest: an operator replays or skips it.
	Blocked Kind = "blocked"
	// Gaps are streams that have waited for a missing number for more than five minutes.
	Gaps Kind = "gap"
	// Undecided effects are held until a person chooses their order.
	Undecided Kind = "undecided"
	// Conflicts are payloads that came under the key of another payload and were neither admitted nor dismissed.
	Conflicts Kind = "conflict"
	// Refused outbox rows were emitted and can never be admitted.
	RefusedOutbox Kind = "outbox_refused"
	// Stranded effects wait for a route that no live configuration has.
	Stranded Kind = "stranded"
	// NotReloaded processes could not apply their new configuration and run the one before: an operator corrects it.
	NotReloaded Kind = "not_reloaded"
	// Silent sources have had no event for longer than is usual for them.
	Silent Kind = "silent"
	// Refusals are requests of the last 24 hours that were not accepted and are kept, and whose source, cause and peer no operator
	// has acknowledged.
	Refusals Kind = "refusal"
	// Suspected events of the last 24 hours seem to repeat others under another id. Only their number is known, and not
	// when the first came.
	Suspected Kind = "suspected"
	// Plans of replays wait for an operator to run them, and have not expired.
	Plans Kind = "plan"
	// Standstills are replays that are being planned or run and have not moved for ten minutes.
	Standstills Kind = "replay_standstill"
	// Paused sources, routes and targets wait until an operator resumes them.
	Paused Kind = "paused"
)

// Kinds are all of them, in their order.
func Kinds() []Kind {
	return []Kind{
		Undeclared, Indeterminate, Failing, Dead, Unusable, Blocked, Gaps, Undecided, Conflicts, RefusedOutbox, Stranded, NotReloaded, Silent, Refusals, Suspected, Plans, Standstills, Paused,
	}
}
