package read

// EffectStatsStatements are what the gauges of effects read, with their parameters, for the test of their plans.
var EffectStatsStatements = map[string][]any{
	readRestingEffects: {[]int32{1, 2}, MaxCountedEffects}, readPendingEffects: {MaxCountedEffects},
}

// ByIndex is what is set before them.
const ByIndex = readByIndex

// Statements about streams, for the tests of their plans.
const (
	CountStreamsSQL = readStreamStats
	WaitingEffects  = waitingStreamEffects
	ReadPlaces      = readPlaces
)

// ListItemStatements read the items of lists that effects became, for the test of their plans.
var ListItemStatements = map[string]string{"item states": countItemStates, "list total": readListTotal, "list place": readListPlace}

// WaitsOf is what an effect says that it waits for.
func WaitsOf(e *EffectRow) string { return e.waits() }
