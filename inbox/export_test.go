package inbox

import (
	"context"
	"strings"
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

// Statements about streams, for the tests of their plans.
const (
	ReadParentEffects = readParentEffects
	PullBackSQL       = pullBack
	PullBackGapsSQL   = pullBackGaps
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

// Measure compares the clocks now.
func (c *Clock) Measure(ctx context.Context) error { return c.measure(ctx) }
