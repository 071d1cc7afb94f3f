// Package jobs carries out effects. [New] makes a [Client] from a store of effects, the routes, and the
// senders and transactionals that carry their effects out. [Client.Start] works until [Client.Stop].
// [NewQueue] makes the queue in which the gate and the store enqueue wake-ups. A program that embeds
// Oncegate calls none of these, because package oncegate does.
//
// A River job is one wake-up. Its arguments are an id. It completes or snoozes and never fails. Losing or
// repeating a job loses and repeats no effect, because the state is in the effect's own row (package
// inbox), fenced by a lease token. The sweeper, on every node, repairs a lost wake-up, an expired lease
// and a truncated river_job.
//
// The River client belongs to Oncegate and is not shared with a program that has its own. Its settings
// apply to the whole client: one queue with short pauses between fetches, deletion of jobs a minute after
// they ended, rescue after twice the longest attempt, and a middleware that keeps every job from failing.
// These settings would change the program's own jobs, and the program's settings would break wake-ups.
// River's tables are in Oncegate's schema, so that Oncegate migrates its own version of River, and so that
// the two clients elect leaders and notify workers separately.
//
// worker.go answers a wake-up. It claims an effect and makes an attempt (attempt.go): check decides
// whether an attempt is needed (precheck.go), send makes it outside the database (send.go), act inside
// (act.go, alone; act_group.go, together with others; act_order.go, in a stream), and decide turns its
// result into a settlement (decide.go).
package jobs

import "time"

// The defaults of the queue come from measurement, because River's own (100 workers, 100 ms) cap a queue
// at 1,000 jobs a second. The fetch cooldown equals the interval between two groups of claims: with half
// of it each fetch found half as many jobs, and next to 300 deliveries a second the processors were a
// fifth busier (./scripts/bench replay --live 300). The poll interval lets an emitted effect start within
// a second even if every notification is lost, because the relay looks twice a second.
const (
	DefaultMaxWorkers        = 500
	DefaultFetchCooldown     = 10 * time.Millisecond
	DefaultFetchPollInterval = 400 * time.Millisecond
)
