package replay

// Statements of replays, for the tests of their plans.
var (
	ReadChunk     = readNextItems
	ReadDecisions = readDecisions
	MarkFresh     = resetEffects
)

// ScopeEffects is the statement that finds the effects of a plan.
func ScopeEffects(s *Scope) (sql string, args []any) { return s.effects(Options{}) }
