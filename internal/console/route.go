package console

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
		{"GET /nodes", listNodes},
		{"GET /audit", listAudit},
	}
}
