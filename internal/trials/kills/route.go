package kills

import (
	"github.com/oncegate/oncegate/internal/drill/invariant"
	"github.com/oncegate/oncegate/internal/drill/ledger"
)

// Route is a kind of target, and the name of the route that leads to it.
type Route string

// The kinds of target.
const (
	// Idempotent deduplicates by its key.
	Idempotent Route = "idempotent"
	// Once cannot deduplicate.
	Once Route = "once"
	// Mail cannot either.
	Mail Route = "mail"
	// Table is a function in the database.
	Table Route = "table"
)

// HasKey says that the route has an effect key, the order of an event: of the events about one order, one happens.
func (r Route) HasKey() bool { return r == Once || r == Table }

// eventType is the type of the events that take the route.
func (r Route) eventType() string { return string(r) + ".happened" }

// invariantRoutes describes the routes to the invariants. All targets share one ledger, because each event takes one
// route.
func invariantRoutes(requests map[string]ledger.Requests) []invariant.Route {
	var all []invariant.Route
	for _, r := range []Route{Idempotent, Once, Mail, Table} {
		all = append(all, invariant.Route{Name: string(r), Kind: invariant.Kind(r), Type: r.eventType(), Keyed: r.HasKey(), Requests: requests})
	}
	return all
}
