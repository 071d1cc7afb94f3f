package prune

// statements are a pass's statements that contain the guards.
type statements struct {
	lockKeys, deleteKeys, lockEffects, deleteEffects, lockEvents, deleteEvents, lockStreams, deleteStreams string
}

// newStatements makes the statements. With an archive, events stay as long as their body waits for it. without leaves out rules of
// guards, which only a test does.
func newStatements(archived bool, without ...string) *statements {
	condition := ""
	if archived {
		condition = bodyArchived
	}
	return &statements{
		lockKeys: lockDueKeys(without...), deleteKeys: deleteKeys(without...),
		lockEffects: lockDueEffects(without...), deleteEffects: deleteEffects(without...),
		lockEvents: lockDueEvents(condition, without...), deleteEvents: deleteEvents(condition, without...),
		lockStreams: lockDueStreams(without...), deleteStreams: deleteStreams(without...),
	}
}
