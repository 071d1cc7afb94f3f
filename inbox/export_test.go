package inbox

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Statements of the gate, for the tests of their plans.
const (
	InsertEvents   = insertEvents
	ReadEvents     = readEvents
	BumpDeliveries = bumpDeliveries
	ReadFirst      = readFirst

	InsertStreams = insertStreams
	LockStreams   = lockStreams
	LockAsked     = lockAsked
	ReadOrder     = readOrder

	ForgetIndeterminate = forgetIndeterminate
	LockEffectEvents    = lockEffectEvents
	MoveEffects         = moveEffects
	SupersedeBelow      = supersedeBelowNumber
	PageHeld            = pageHeld
	ReadAhead           = readAhead
	GoOnInStreams       = goOnInStreams
	SettleInStreams     = settleInObtainedStreams
)

// Statements about dead letters and replays, for the tests of their plans.
const (
	ListDead     = listDead
	GroupDead    = groupDead
	FindDead     = findDead
	ScopeEffects = scopeEffects
	ReadChunk    = readChunk

	ReadDecisions = readDecisions
)

// DeadArgs are the parameters of a filter, and those that follow them.
func DeadArgs(f DeadFilter, more ...any) []any { return append(f.Args(), more...) }

// WorkStatements are those that are given effects by their ids, for the tests of
// their plans.
var WorkStatements = map[string]string{
	"claim": claimDue, "read claims": readClaims, "start sends": startSends, "postpone": postponeEffects, "mark unfinished": markUnfinished,
	"fence": fenceEffect, "settle": settleEffects, "read standings": readStandings, "hold for key": holdForKey, "insert keys": insertKeys,
	"take over keys": takeOverKeys, "lock asked": lockAsked, "move": moveEffects, "lock effects": lockEffects, "mark fresh": markFresh,
}

// EffectStatsStatements are what the gauges of effects read, with their parameters, for the test of their plans.
var EffectStatsStatements = map[string][]any{
	readRestingEffects: {[]int32{1, 2}, MaxCountedEffects}, readPendingEffects: {MaxCountedEffects},
}

// StrandedStatements are what a start and its check count by, in the session that
// [CheckSession] makes.
var StrandedStatements = map[string][]any{
	readStrandedRest: {[]int32{1, 2}, row.MaxCounted + 1}, readStrandedDue: {[]int32{1, 2}, strandedDue}, readKeyHolders: {row.MaxCounted + 1},
	readRecipes: {[]int32{1, 2}, row.MaxCounted + 1},
}

// CheckSession is what is set before them.
const CheckSession = checkSession

// ReadByIndex is what is set before them.
const ReadByIndex = readByIndex

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

// PrepareSession are the settings under which the statements of prune are planned.
const PrepareSession = prepareSession

// PruneStatements are the statements of prune and erase, for the tests of their
// plans; %[1]s is a day of bodies.
var PruneStatements = map[string]string{
	"lock events": lockDueEvents, "delete events": deleteEvents, "lock effects": lockDueEffects, "delete effects": deleteEffects,
	"lock keys": lockDueKeys, "delete keys": deleteKeys, "under way": underWay, "oldest at rest": oldestAtRest,
	"lock streams": lockDueStreams, "delete streams": deleteStreams, "at rest": dueAtRest, "held": dueHeld,
	"refusals": deleteRefusals, "replay items": deleteReplayItems, "replays": deleteReplays, "audits": deleteAudits,
	"keep bodies": keepBodies, "lock kept": lockKeptBodies, "delete kept": deleteKeptBodies, "backlog": countBacklog,
	"find erased": findErased, "lock siblings": lockSiblings, "lock erased": lockErasedEffects, "erase effects": eraseEffects,
	"erase attempts": eraseAttempts, "erase duplicates": eraseDuplicates, "erase results": eraseResults, "erase diffs": eraseDiffs,
	"erase events": eraseEvents, "conflicts": deleteConflicts, "erase conflicts": eraseConflicts, "source refusals": readSourceRefusals,
}

// GoOnWith makes a store go on in its streams with another condition instead of one.
// It reports false if there is no such condition.
func (e *Effects) GoOnWith(condition, instead string) bool {
	e.goOnBy = strings.Replace(goOnInStreams, condition, instead, 1)
	return strings.Contains(goOnInStreams, condition)
}

// Foreseen reports whether a settlement would go on by what was read ahead.
func (e *Effects) Foreseen(s *Settlement) bool {
	_, ok := e.foresee(s)
	return ok
}

// Grouped gives what commits concurrent calls together, by one flusher.
func Grouped(size int, apart time.Duration, run func(ctx context.Context, in []int) ([]int, error)) func(ctx context.Context, in int) (int, error) {
	g := &row.Group[int, int]{Run: run, Size: size, Flushers: 1, Apart: apart, Timeout: time.Second}
	return g.Do
}

// Peers counts the peers that the store remembers the shares of.
func (r *Refusals) Peers() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.shares)
	for _, pace := range r.paces {
		n += len(pace.lanes)
	}
	return n
}
