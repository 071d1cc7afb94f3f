package console

import "github.com/oncegate/oncegate/internal/control"

// route is one page, or one thing that a form does.
type route struct {
	pattern string
	make    func(*request) (*page, error)
}

// routes are all of them. What changes something is a POST, and is protected against requests that another site has a
// browser make.
func routes() []route {
	return []route{
		{"GET /{$}", start},
		{"GET /overview", showOverview},
		{"GET /find", find},
		{"GET /events", listEvents},
		{"GET /events/{id}", showEvent},
		{"POST /events/{id}/payload", revealPayload("event")},
		{"GET /compare", comparePayloads},
		{"GET /effects", listEffects},
		{"GET /effects/{id}", showEffect},
		{"GET /conflicts", listConflicts},
		{"GET /conflicts/{id}", showConflict},
		{"POST /conflicts/{id}/payload", revealPayload("conflict")},
		{"POST /conflicts/{id}/changes", showChanges},
		{"GET /refusals", listRefusals},
		{"GET /refusals/{id}", showRefusal},
		{"POST /refusals/{id}/payload", revealPayload("refusal")},
		{"GET /refusals/reverify", previewReverify},
		{"POST /refusals/reverify", reverify},
		{"POST /events/{id}/erase", eraseEvent},
		{"POST /conflicts/{id}/admit", admitConflict},
		{"POST /effects/{id}/discard", discardOne},
		{"POST /effects/{id}/resolve", resolveOne},
		{"POST /effects/{id}/apply", decideHeld(&control.ApplyEffect, "")},
		{"POST /effects/{id}/skip", decideHeld(&control.SkipEffect, "skip")},
		{"GET /dead", listDead},
		{"GET /dead/discard", previewDiscard},
		{"POST /dead/discard", discardDead},
		{"GET /unknown", listUnknown},
		{"GET /unknown/resolve", previewResolve},
		{"POST /unknown/resolve", resolveMany},
		{"GET /replays", listReplays},
		{"GET /replays/new", newReplay},
		{"POST /replays", planReplay},
		{"GET /replays/{id}", showReplay},
		{"POST /replays/{id}/run", runReplay},
		{"POST /replays/{id}/cancel", cancelReplay},
		{"GET /streams", listStreams},
		{"GET /streams/{ref}", showStream},
		{"POST /streams/{ref}/skip", passStream(&control.SkipStream, "skip", "skipped")},
		{"POST /streams/{ref}/unblock", passStream(&control.UnblockStream, "unblock", "unblocked")},
		{"POST /streams/{ref}/apply", passStream(&control.ApplyStream, "apply", "decided")},
		{"GET /sources", listSources},
		{"GET /sources/{name}", showSource},
		{"POST /sources/{name}/test", testSource},
		{"GET /routes/clear", previewClear},
		{"POST /routes/discard", clearRoute("discarded", discardRoute)},
		{"POST /routes/move", clearRoute("moved", moveRoute)},
		{"GET /providers", listProviders},
		{"GET /providers/{name}", showProvider},
		{"GET /operations", listOperations},
		{"POST /operations/sessions/revoke", revokeSessions},
		{"GET /outbox/{ref}", showOutbox},
		{"POST /outbox/{ref}/payload", downloadOutbox},
		{"POST /outbox/{ref}/discard", discardOutbox},
		{"GET /suppressions", listSuppressions},
		{"POST /suppressions", addSuppressions},
		{"POST /suppressions/check", checkSuppression},
		{"POST /suppressions/remove", removeSuppression},
		{"GET /retention", showRetention},
		{"GET /retention/prune", previewPrune},
		{"POST /retention/prune", runPrune},
		{"GET /access", showAccess},
		{"POST /access/tokens", createToken},
		{"POST /access/tokens/revoke", revokeToken},
		{"POST /access/logins/link", createLink},
		{"POST /access/logins/revoke", revokeLogin},
		{"GET /nodes", listNodes},
		{"GET /audit", listAudit},
	}
}
