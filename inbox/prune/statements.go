package prune

// statements are a pass's statements that contain the guards.
type statements struct {
	lockKeys, deleteKeys, lockEffects, deleteEffects, lockEvents, deleteEvents, lockStreams, deleteStreams string
}

// newStatements makes the statements. without leaves out rules of guards, which only a test does.
func newStatements(without ...string) *statements {
	return &statements{
		lockKeys: lockDueKeys(without...), deleteKeys: deleteKeys(without...),
		lockEffects: lockDueEffects(without...), deleteEffects: deleteEffects(without...),
		lockEvents: lockDueEvents(without...), deleteEvents: deleteEvents(without...),
		lockStreams: lockDueStreams(without...), deleteStreams: deleteStreams(without...),
	}
}
