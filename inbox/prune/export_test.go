package prune

// PrepareSession are the settings under which the statements of prune are planned.
const PrepareSession = prepareSession

// Without makes p a pruner that does not heed one rule of a guard, as "list/0".
func Without(p *Pruner, rule string) *Pruner {
	return &Pruner{cfg: p.cfg, sql: newStatements(p.cfg.Archive.Configured(), rule)}
}

// PruneStatements are the statements of prune and erase, for the tests of their
// plans; %[1]s is a day of bodies.
var PruneStatements = map[string]string{
	"lock events": lockDueEvents(bodyArchived), "delete events": deleteEvents(bodyArchived), "lock effects": lockDueEffects(), "delete effects": deleteEffects(),
	"lock keys": lockDueKeys(), "delete keys": deleteKeys(), "under way": readUnsettledEffects, "oldest at rest": readOldestAtRest,
	"lock streams": lockDueStreams(), "delete streams": deleteStreams(), "at rest": findDueAtRest, "held": findDueHeld,
	"refusals": deleteRefusals, "replay items": deleteReplayItems, "replays": deleteReplays, "audits": deleteAudits,
	"keep bodies": copyBodies, "lock kept": lockKeptBodies, "delete kept": deleteKeptBodies, "backlog": countBacklog,
	"find erased": findErased, "lock siblings": lockSiblings, "lock erased": lockErasedEffects, "erase effects": eraseEffects,
	"erase attempts": eraseAttempts, "erase duplicates": eraseDuplicates, "erase results": eraseResults, "erase diffs": eraseDiffs,
	"erase events": eraseEvents, "conflicts": deleteConflicts, "erase conflicts": eraseConflicts, "source refusals": readSourceRefusals,
	"minutes": statMinutes.deleteCounts(), "hours": statHours.deleteCounts(), "erase labels": eraseLabels, "plain labels": readPlainLabels, "hash labels": hashLabels,
	"archive a day": readDay, "next body": readNextBody, "archive kept": readKept, "unneeded": readUnneeded, "archive conflicts": lockConflicts,
	"agent sessions": deleteAgentSessions, "logins": deleteLogins, "login links": deleteLoginLinks, "API requests": deleteAPIRequests,
}
