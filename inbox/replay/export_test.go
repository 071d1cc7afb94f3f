package replay

// Statements of replays, for the tests of their plans.
var (
	ScopeEffects  = scopeEffects
	ReadChunk     = readNextItems
	ReadDecisions = readDecisions
	MarkFresh     = resetEffects
)
