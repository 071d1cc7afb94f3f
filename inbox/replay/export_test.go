package replay

// Statements of replays, for the tests of their plans.
const (
	ScopeEffects  = scopeEffects
	ReadChunk     = readChunk
	ReadDecisions = readDecisions
	MarkFresh     = markFresh
)
