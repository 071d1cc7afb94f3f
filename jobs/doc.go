// Package jobs carries out effects. A River job is one wake-up: its arguments
// are an id, it completes or snoozes and never fails, and losing or repeating
// it loses and repeats nothing, because the truth is in the effect's own row
// (package inbox), fenced by a lease token. The sweeper, on every node, makes a
// lost wake-up, an expired lease and a truncated river_job harmless.
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
