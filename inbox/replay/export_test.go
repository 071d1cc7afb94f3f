package replay

// Statements of replays, for the tests of their plans.
var (
	ScopeEffects  = scopeEffects
	ReadChunk     = readChunk
	ReadDecisions = readDecisions
	MarkFresh     = markFresh
)
