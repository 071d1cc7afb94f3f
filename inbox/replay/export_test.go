package replay

import (
	"github.com/oncegate/oncegate/inbox/read"
)

// Statements of replays, for the tests of their plans.
var (
	ReadChunk     = readNextItems
	ReadDecisions = readDecisions
	MarkFresh     = resetEffects
)

// ScopeEffects is the statement that finds the effects of a plan.
func ScopeEffects(s *Scope, o Options, label *read.LabelSearch) (sql string, args []any) {
	return s.effects(o, label)
}

// ScopeEvents is the statement that finds the events of a plan.
func ScopeEvents(s *Scope, o Options, label *read.LabelSearch) (sql string, args []any) {
	return s.newEvents(o, label)
}
