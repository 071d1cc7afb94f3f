// Package jobs carries out effects. [New] makes a [Client] of a store of effects, the routes
// and what carries their effects out; [Client.Start] works until [Client.Stop]. [NewQueue] makes the queue
// that the gate and the store enqueue wake-ups with. A program that embeds Oncegate calls none
// of it: package oncegate does.
//
// A River job is one wake-up. Its arguments are an id, and it completes or snoozes and never
// fails. Losing or repeating it loses and repeats nothing, because the truth is in the
// effect's own row (package inbox), fenced by a lease token. The sweeper, on every node, makes
// a lost wake-up, an expired lease and a truncated river_job harmless.
//
// The River client is Oncegate's own and is not shared with a program that has one. Its
// settings hold for a whole client: one queue with short pauses between fetches, jobs that
// are deleted a minute after they ended, rescue after twice the longest attempt, a middleware that
// keeps every job from failing. They would change the program's own jobs, and a program's settings
// would break wake-ups. Its tables are in Oncegate's schema, so that its version of River is
// migrated with Oncegate, and so that both elect leaders and notify workers apart.
//
// A wake-up is answered in worker.go. It claims an effect and makes an attempt (attempt.go):
// check decides whether there is to be one (precheck.go), send makes it outside the database
// (send.go), act inside (act.go, alone; act_group.go, together with others; act_order.go, in
// a stream), and decide turns its result into a settlement (decide.go).
package jobs

import "time"

// The defaults of the queue, from measurement: River's own (100 workers, 100 ms)
// cap a queue at 1,000 jobs a second. Two fetches are as far apart as two groups of
// claims: half as far they found half as much, and beside 300 deliveries a second the
// processors were a fifth busier (./scripts/bench replay --live 300). The poll interval
// is as long as an effect that was emitted may be under way within a second though every
// notification is lost: the relay looks twice a second.
const (
	DefaultMaxWorkers        = 500
	DefaultFetchCooldown     = 10 * time.Millisecond
	DefaultFetchPollInterval = 400 * time.Millisecond
)
