package read

import (
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// rareEffects are the effects in a state in which few effects stay, in the order of a partial index. If they are few, a
// list narrowed to the state sorts them instead of walking the table.
type rareEffects struct {
	in func(*row.Statement)
}

// rareStates returns the effects of the index that contains those in the state, or nil for a state without an index.
func rareStates(state string) *rareEffects {
	switch inbox.EffectState(state) {
	case inbox.EffectDead:
		return &rareEffects{row.Is(`effect e WHERE e.state = 'dead' ORDER BY e.id DESC`)}
	case inbox.EffectIndeterminate:
		return &rareEffects{row.Is(`effect e WHERE e.state = 'indeterminate' ORDER BY e.route_id, e.id`)}
	case inbox.EffectHeld:
		return &rareEffects{row.Is(`effect e WHERE e.state = 'held' ORDER BY e.route_id, e.id`)}
	case inbox.EffectPending, inbox.EffectClaimed, inbox.EffectRetry:
		return &rareEffects{row.Is(`effect e WHERE e.next_at IS NOT NULL ORDER BY e.next_at, e.id`)}
	case inbox.EffectDuplicate:
		return &rareEffects{row.Is(`effect e WHERE e.duplicate_of IS NOT NULL ORDER BY e.duplicate_of`)}
	default:
		return nil
	}
}

// count writes the statement that shows whether the effects are few.
func (r *rareEffects) count(s *row.Statement) *row.Statement {
	s.Add(`SELECT count(*) FROM (SELECT FROM `)
	r.in(s)
	return s.Add(` LIMIT ?) c`, few+1)
}

// events writes a query for the ids of the effects' events, and effects one for the ids of the effects.
func (r *rareEffects) events(s *row.Statement) {
	s.Add(`SELECT e.event_id FROM `)
	r.in(s)
	s.Add(` LIMIT ?`, 2*few)
}

func (r *rareEffects) effects(s *row.Statement) {
	s.Add(`SELECT e.id FROM `)
	r.in(s)
	s.Add(` LIMIT ?`, 2*few)
}
