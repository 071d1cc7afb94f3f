package inbox

import (
	"context"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Statements about effects and streams, for the tests of their plans.
var (
	LockStreams = lockStreams
	LockAsked   = lockAsked
	ReadOrder   = readOrder

	ForgetIndeterminate = forgetIndeterminate
	LockEffectEvents    = lockEffectEvents
	MoveEffects         = moveEffects
	SupersedeBelow      = supersedeBelowNumber
	PageHeld            = pageHeld
	ReadAhead           = readAhead
	GoOnInStreams       = continueInStreams
	SettleInStreams     = settleInObtainedStreams
)

// WorkStatements are those that are given effects by their ids, for the tests of
// their plans.
var WorkStatements = map[string]string{
	"claim": claimDue, "read claims": readClaims, "start sends": startSends, "postpone": postponeEffects, "mark unfinished": markUnfinished,
	"fence": fenceEffect, "settle": settleEffects, "read standings": readStandings, "hold for key": holdBehindOwner, "insert keys": insertKeys,
	"take over keys": takeOverKeys, "lock asked": lockAsked, "move": moveEffects, "lock effects": lockEffects,
	"insert item keys": insertItemKeys, "take over item keys": takeOverItemKeys, "mark duplicates": markDuplicates,
	"last item": readLastItem, "count items": countItems, "list head": readListHead, "list": readHeadList,
}

// EffectStatsStatements are what the gauges of effects read, with their parameters, for the test of their plans.
var EffectStatsStatements = map[string][]any{
	readRestingEffects: {[]int32{1, 2}, MaxCountedEffects}, readPendingEffects: {MaxCountedEffects},
}

// ReadByIndex is what is set before them.
const ReadByIndex = readByIndex

// Statements about streams, for the tests of their plans.
const (
	ReadStreamStatsSQL = readStreamStats
	WaitingEffects     = waitingStreamEffects
	MissingNumbers     = row.MissingNumbers
	ReadPlaces         = readPlaces
	PullBackSQL        = pullBack
	PullBackGapsSQL    = pullBackGaps
)

// GoOnWith makes a store go on in its streams with another condition instead of one.
// It reports false if there is no such condition.
func (e *Effects) GoOnWith(condition, instead string) bool {
	e.continueStatement = strings.Replace(continueInStreams, condition, instead, 1)
	return strings.Contains(continueInStreams, condition)
}

// Foreseen reports whether a settlement would go on by what was read ahead.
func (e *Effects) Foreseen(s *Settlement) bool {
	_, ok := e.planContinuation(s)
	return ok
}

// Grouped gives what commits concurrent calls together, by one flusher.
func Grouped(size int, apart time.Duration, run func(ctx context.Context, in []int) ([]int, error)) func(ctx context.Context, in int) (int, error) {
	g := &row.Group[int, int]{Run: run, Size: size, Flushers: 1, Apart: apart, Timeout: time.Second}
	return g.Do
}

// FindAgentSession is the statement of every call under a session, for the test of its plan.
const FindAgentSession = findAgentSession

// ListSumStatements sum up lists that effects became, and recognise calls that came before, for the tests of their plans.
var ListSumStatements = map[string]string{
	"list states": countListStates, "item failures": readItemFailures, "item states": countItemStates, "list total": readListTotal, "list place": readListPlace,
	"recent call": readRecentCall, "followed call": readFollowedCall, "parent effects": readParentEffects,
}

// Measure compares the clocks now.
func (c *Clock) Measure(ctx context.Context) error { return c.measure(ctx) }
