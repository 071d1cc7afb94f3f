package read

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// The indexes of held effects and of effects with an unknown outcome begin with the route. In a window each
// route has an equal share of its rows beyond a place. It ends at the nearest place at which a route has used up its share.
// So a window reads no more rows than it should, with any number of routes.
const (
	shareOfHeld = ` OFFSET greatest(? / greatest((
            SELECT count(*) FROM route o WHERE (SELECT true FROM effect x WHERE x.route_id = o.id AND x.state = 'held' ORDER BY x.route_id, x.id LIMIT 1)), 1), 1) - 1
        LIMIT 1) h`
	shareOfUnknown = ` OFFSET greatest(? / greatest((
            SELECT count(*) FROM route o WHERE (SELECT true FROM effect x WHERE x.route_id = o.id AND x.state = 'indeterminate' ORDER BY x.route_id, x.id LIMIT 1)), 1), 1) - 1
        LIMIT 1) h`

	heldOfRoutes = `
SELECT h.id
FROM route r
JOIN source s ON s.id = r.source_id
CROSS JOIN LATERAL (
        SELECT e.id FROM effect e WHERE e.route_id = r.id AND e.state = 'held'`
	unknownOfRoutes = `
SELECT h.id
FROM route r
CROSS JOIN LATERAL (
        SELECT e.id FROM effect e WHERE e.route_id = r.id AND e.state = 'indeterminate'`
)

// effectsBeyond narrows effects e to ids above from, up to and including to. A zero id does not narrow them.
func effectsBeyond(from, to inbox.ID) (p row.Predicates) {
	p.AddIf(!from.IsZero(), `e.id > ?`, from)
	p.AddIf(!to.IsZero(), `e.id <= ?`, to)
	return p
}

// edgeOfHeld returns a function that finds where a window of held effects ends, oldest first. in narrows the routes r and
// their sources s.
func (l *Lister) edgeOfHeld(in row.Predicates) func(ctx context.Context, from inbox.ID, rows int) (inbox.ID, time.Time, error) {
	return func(ctx context.Context, from inbox.ID, rows int) (inbox.ID, time.Time, error) {
		var s row.Statement
		s.Add(heldOfRoutes).And(effectsBeyond(from, inbox.ID{})).Add(` ORDER BY e.route_id, e.id`).Add(shareOfHeld, rows)
		s.Where(in).Add(` ORDER BY h.id LIMIT 1`)
		return l.edge(ctx, &s)
	}
}

// edgeOfUnknown finds where a window of effects with an unknown outcome ends, newest first.
func (l *Lister) edgeOfUnknown(ctx context.Context, from inbox.ID, rows int) (inbox.ID, time.Time, error) {
	var s row.Statement
	s.Add(unknownOfRoutes).And(effectsBetween(inbox.ID{}, from)).Add(` ORDER BY e.route_id DESC, e.id DESC`).Add(shareOfUnknown, rows)
	s.Add(` ORDER BY h.id DESC LIMIT 1`)
	return l.edge(ctx, &s)
}
