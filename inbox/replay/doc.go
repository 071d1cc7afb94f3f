// Package replay runs settled, dead and indeterminate effects again, as a batch that an operator has reviewed: plan, then run.
//
// Call [New], then [Store.Plan] with a [PlanRequest], show the plan's [Summary] and [Store.Items], and call [Store.Start] with
// its digest. A worker of package jobs then calls [Store.Acquire] and [Runner.Step] until the replay is done. [Store.Cancel] ends
// a replay at any time; the remaining effects keep their states.
//
// Only [inbox.Effects.SettleLocked] brings an effect back, because it fences the effect. No statement of this package does so.
//
// # Planning and running
//
// [Store.Plan] records, item by item, what a run would do: each effect with its state, reason, version and
// revision, whether it gets new attempts or why not, and what would be sent today according to the [Judge].
// [Store.Start] accepts a plan only if the digest, computed again over its rows, equals the one that was shown.
// [Store.Step] then takes a few items at a time, in one transaction under a lock on the replay's row. It makes an
// effect pending if the effect is still as the plan saw it, records the outcome of the item, and enqueues the wake-up
// at the lowest priority. So a process may die at any time, two processes may work on one replay, and a
// cancelled replay leaves each item either done or untouched. The replay's row keeps its rate, by the
// database's clock. The job of a replay is only a wake-up: the sweeper finds running replays that have no job.
//
// A replay never overrides a decision made after the plan. Every transaction that takes an effect out of a
// state at rest increments the effect's revision. So does every decision about an effect that stays there: its event is
// erased, its stream continues without it, or another payload of its event is admitted. A run does not touch an
// effect whose revision has changed, and its item says who decided. The version, by contrast, counts how often
// an effect was given new attempts; it numbers the attempts and is part of new keys.
//
// Under its own key an effect sends the bytes that were stored for it, even if the configuration has changed,
// because one key must always mean one body. Under a new key, which is the old key followed by the version, it is
// rendered again. An ordered effect becomes pending like any other, and the claim applies the policy for late
// effects. For a duplicate, the replay runs its owner. An ordered route that is new to an event gets
// no effect, because effects get their places in a sequence when events arrive, and an effect without a place would
// overtake those with one. The plan says so.
package replay
