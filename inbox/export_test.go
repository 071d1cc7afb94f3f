package inbox

import "github.com/jackc/pgx/v5/pgxpool"

// Statements of the gate, for the tests of their plans.
const (
	InsertEvents   = insertEvents
	ReadEvents     = readEvents
	BumpDeliveries = bumpDeliveries
	ReadFirst      = readFirst

	InsertStreams  = insertStreams
	LockStreams    = lockStreams
	LockAsked      = lockAsked
	ReadOrder      = readOrder
	MoveEffects    = moveEffects
	SupersedeBelow = supersedeBelowNumber
	PageHeld       = pageHeld
)

// Statements about dead letters and replays, for the tests of their plans.
const (
	ListDead     = listDead
	GroupDead    = groupDead
	FindDead     = findDead
	ScopeEffects = scopeEffects
)

// DeadArgs are the parameters of a filter, and those that follow them.
func DeadArgs(f DeadFilter, more ...any) []any { return append(f.args(), more...) }

// Statements about streams, for the tests of their plans.
const (
	ReadStreamStatsSQL = readStreamStats
	WaitingEffects     = waitingStreamEffects
	MissingNumbers     = missingNumbers
)

// AcquireFrom is how the gate gets its connections.
func AcquireFrom(pool *pgxpool.Pool) Acquire { return acquireFrom(pool) }

// LockPruneSpace is the first half of prune's lock.
const LockPruneSpace = lockPruneSpace
