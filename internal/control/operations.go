package control

// Operations returns all operations, in the order of the API's description.
func Operations() []Definition {
	reads := []Definition{
		&ListEvents, &ShowEvent, &ReadEventBody,
		&ListEffects, &GroupEffects, &ShowEffect, &ListAttempts, &ListItems,
		&ListDeadLetters, &GroupDeadLetters, &ShowDeadLetter,
		&ListIndeterminates, &GroupIndeterminates,
		&ListConflicts, &ShowConflict, &ReadConflictBody, &ListConflictChanges,
		&ListRefusals, &GroupRefusals, &ShowRefusal, &ReadRefusalBody,
		&ListStreams, &ShowStream, &ListUndecided,
		&ListReplays, &ShowReplay, &ListReplayItems, &CompareRun,
		&ShowOperation, &ListAgentSessions,
		&ListSuppressions, &CheckSuppression,
		&ListOutbox, &ReadOutboxPayload,
		&ListSources, &ShowSource, &ShowDefinition, &ListRoutes, &ListTargets, &ShowTarget,
		&ListProviders, &ShowProvider,
		&ListRetention, &ShowPruning, &ListPruneRuns,
		&FindReference,
		&ShowPayload, &RevealPayload, &ComparePayloads,
		&ListAudit, &ListNodes, &ListKeys, &ShowStatus,
		&ShowAttention, &ListNotifications, &ShowFigures, &ShowNames,
		&ListTokens, &CreateToken, &RevokeToken,
		&ListLogins, &RevokeLogin, &CreateLoginLink,
	}
	return append(reads, acts()...)
}
