package inbox

import "github.com/oncegate/oncegate/inbox/internal/row"

// rareEffects are effects in states that most do not stay in, in the order of an index that holds no others. As long
// as they are few, a list that asks for one of these states sorts them instead of walking the table.
type rareEffects struct {
	in func(*row.Statement)
}

// rareStates gives the effects among which those in a state are; nil for a state that has no index.
func rareStates(state string) *rareEffects {
	switch EffectState(state) {
	case EffectDead:
		return &rareEffects{row.Is(`effect e WHERE e.state = 'dead' ORDER BY e.id DESC`)}
	case EffectIndeterminate:
		return &rareEffects{row.Is(`effect e WHERE e.state = 'indeterminate' ORDER BY e.route_id, e.id`)}
	case EffectHeld:
		return &rareEffects{row.Is(`effect e WHERE e.state = 'held' ORDER BY e.route_id, e.id`)}
	case EffectPending, EffectClaimed, EffectRetry:
		return &rareEffects{row.Is(`effect e WHERE e.next_at IS NOT NULL ORDER BY e.next_at, e.id`)}
	case EffectDuplicate:
		return &rareEffects{row.Is(`effect e WHERE e.duplicate_of IS NOT NULL ORDER BY e.duplicate_of`)}
	default:
		return nil
	}
}

// count writes the statement that says whether they are few.
func (r *rareEffects) count(s *row.Statement) *row.Statement {
	s.Add(`SELECT count(*) FROM (SELECT FROM `)
	r.in(s)
	return s.Add(` LIMIT ?) c`, few+1)
}

// events writes the ids of their events, and effects their own.
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
