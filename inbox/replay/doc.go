// Package replay carries effects at rest out again, as a batch that a person has seen before: plan, then run.
//
// Call [New], then [Store.Plan] with a [PlanRequest], show the plan's [Summary] and [Store.Items], and call [Store.Start] with
// its digest. A worker of package jobs then calls [Store.Acquire] and [Runner.Step] until the replay is done. [Store.Cancel] ends
// one at any time; what is not done stays as it was.
//
// Effects leave their rest through [inbox.Effects.SettleLocked] only, which fences them; this package has no statement of its
// own that does.
//
// # How a replay goes
//
// [Store.Plan] writes down, item by item, what a run would do: each effect with
// its state, reason, version and revision, whether it gets fresh attempts or why not, and what the [Judge]
// says would be sent today. [Store.Start] takes a plan whose digest, made anew
// over its rows, is the one that was shown. [Store.Step] then takes a few items
// at a time in one transaction under the lock of the replay's row: the effects
// leave their rest through settle, if they are still as the plan saw them, the items get
// their outcomes, the wake-ups their lowest priority. So a process may die
// anywhere, two may work on one replay, and a cancellation leaves each item done
// or as it was. A replay's rate is kept by the database's clock, in its row. Its
// job is only a wake-up too: the sweeper finds a running replay that has none.
//
// A plan never overrides a decision. Whatever takes an effect out of a state at rest, and
// whatever is decided about one that stays there (its event is erased, its stream goes on
// without it, another payload of its event is admitted), moves the effect's revision, in
// the transaction that does it. A run leaves an effect of another revision alone, and its
// item says who decided since the plan. The version, by contrast, counts how often an effect
// was given fresh attempts; attempts are numbered by it, and new keys are made of it.
//
// Under its own key an effect sends the bytes that were stored for it, whatever
// the configuration says today: one key, one body. Under a new key, which is the
// old one with the version behind it, it is rendered anew. An ordered effect
// becomes pending like any other, and the claim decides by the policy for late
// ones. A duplicate is replayed as its owner. A route that is ordered and new to an
// event gets no effect of it: places in a sequence are given when events come, and an
// effect without one would pass those that have. The plan says so.
package replay
