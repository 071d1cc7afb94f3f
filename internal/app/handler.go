package app

import (
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/jobs/effect"
)

// Handler is a Go function that carries out the effects of a route. One of the two fields is set.
// The zero Handler represents an unknown handler, as in a command that only plans.
type Handler struct {
	// Transactional acts inside the database, in the transaction that records the outcome.
	Transactional effect.Transactional
	// Sender acts anywhere else.
	Sender effect.Sender
}

// inDatabase reports whether the handler of a target acts inside the database.
func (h Handler) inDatabase(t *config.Target) bool {
	return t.Kind == config.KindHandler && h.Sender == nil
}

// deduplicates reports whether the handler of a target may be called again after an attempt whose
// end is unknown.
func (h Handler) deduplicates(t *config.Target) bool {
	return t.Kind == config.KindHandler && h.Sender != nil && h.Sender.Idempotent()
}

// add registers the handler as the target's sender or transactional.
func (h Handler) add(to *targets, name string) {
	switch {
	case h.Sender != nil:
		to.senders[name] = failingSender(h.Sender)
	case h.Transactional != nil:
		to.transactionals[name] = h.Transactional
	default:
		to.transactionals[name] = effect.HandlerFunc(nil) // it is never called
	}
}
