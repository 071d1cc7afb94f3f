package inbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Guard checks for a row before something is done, because without that row something would happen: it would be done a second
// time, or before a person has made a decision that it needs. A guard must live as long as what it protects, so everything that
// removes rows (prune, erase, a discard, a move to another route) leaves the rows that a guard reads.
//
// [Guards] is the only list of them. Prune makes its statements of it, and a test removes one rule after the other and fails
// if nothing notices. If you add a check of this kind, add it to the list, with a scene for the test.
type Guard struct {
	// Name is unique in the list.
	Name string

	// Reads names the relations and columns that are read, and by what.
	Reads string

	// Protects says what would happen without the row.
	Protects string

	// Until says how long the rows stay.
	Until string

	// Keeps are the rules that prune obeys. A guard whose rows go with another row, or by their own time, has none.
	Keeps []Keep
}

// Keep is one rule: a row of the table stays while the condition is true.
type Keep struct {
	Table string

	// While is SQL about the row: e is an effect or an event, k an effect key, s a stream. Its users replace the names in
	// braces: {horizon} is the time before which a settled effect has to have ended, and {replays} is true where
	// rows that an open replay lists may go. {effect}, {effect_key} and {conflict} are the rows that these tables still have.
	While string
}

// settledStates are the states for which [EffectState.Settled] is true, as SQL.
const settledStates = `('done', 'superseded', 'skipped', 'duplicate')`

// mayReturn says that an effect is not settled, or has been for so short a time that a replay can bring it back: an operator may have
// discarded it just now. An effect that a prune was told to remove does not return.
func mayReturn(effect string) string {
	return effect + `.state NOT IN ` + settledStates + ` OR ` + effect + `.finished_at >= {horizon} AND ` + effect + `.reason IS DISTINCT FROM 'pruned'`
}

// openItemOf says that a plan may still act on a replay item.
func openItemOf(condition string) string {
	return `EXISTS (SELECT FROM replay_item i JOIN replay plan ON plan.id = i.replay_id WHERE ` + condition + ` AND ` + row.OpenItem + `)`
}

// Guards is the list of all guards. In their rules OFFSET 0 has each row looked up by itself: the planner would else read a
// whole table into a hash.
func Guards() []Guard {
	return []Guard{
		{
			Name:     "event",
			Reads:    "inbox_event (source_id, event_id) and (source_id, transmission): the gate",
			Protects: "a redelivery would be recorded as a new event, with new effects",
			Until:    "its tombstone's horizon is over and nothing else keeps it; erasing leaves the row",
			Keeps: []Keep{
				{"inbox_event", `EXISTS (SELECT FROM {effect} f WHERE f.event_id = e.id)`},
				{"inbox_event", `EXISTS (SELECT FROM {conflict} c WHERE c.event_id = e.id)`},
			},
		}, {
			Name:     "later call",
			Reads:    "inbox_event.parent, effect of that event, operation_result: replays, rearms and resends of an effect whose operation was called again",
			Protects: "the effect would be repeated although a later call did the same",
			Until:    "the event that it names is gone, and with it every effect that could be repeated",
			Keeps: []Keep{
				{"inbox_event", `e.parent IS NOT NULL AND EXISTS (SELECT FROM inbox_event p WHERE p.id = e.parent OFFSET 0)`},
				{"effect", `EXISTS (SELECT FROM inbox_event v JOIN inbox_event p ON p.id = v.parent WHERE v.id = e.event_id AND v.parent IS NOT NULL OFFSET 0)`},
			},
		}, {
			Name:     "earlier call",
			Reads:    "effect of the events that a call follows: an attempt asks what the earlier calls have done",
			Protects: "the later call would repeat what an earlier one did",
			Until:    "every effect of the calls that follow is settled and past its horizon: a replay can bring a discarded one back",
			Keeps: []Keep{{"effect", `EXISTS (SELECT FROM inbox_event c WHERE c.parent = e.event_id AND c.parent IS NOT NULL OFFSET 0) AND EXISTS (
        WITH RECURSIVE later (id, depth) AS (
            SELECT c.id, 1 FROM inbox_event c WHERE c.parent = e.event_id AND c.parent IS NOT NULL
            UNION
            SELECT c.id, l.depth + 1 FROM later l JOIN inbox_event c ON c.parent = l.id AND c.parent IS NOT NULL WHERE l.depth < 16)
        SELECT FROM later l JOIN {effect} f ON f.event_id = l.id WHERE ` + mayReturn("f") + ` OFFSET 0)`}},
		}, {
			Name:     "duplicate",
			Reads:    "effect.duplicate_of: a replay of the owner asks for later calls of its duplicates, and a duplicate shows its owner's result",
			Protects: "the owner would be repeated although a later call of a duplicate did the same",
			Until:    "owner and duplicate are settled and past their horizons: a replay can bring a discarded owner back",
			Keeps: []Keep{
				{"effect", `EXISTS (SELECT FROM {effect} d WHERE d.duplicate_of = e.id AND (d.finished_at >= {horizon} OR d.finished_at IS NULL))`},
				{"effect", `e.state = 'duplicate' AND EXISTS (SELECT FROM {effect} o WHERE o.id = e.duplicate_of AND (` + mayReturn("o") + `) OFFSET 0)`},
			},
		}, {
			Name:     "key owner",
			Reads:    "effect_key (route_id, key_hash), and the effect that it names: whoever asks for a key",
			Protects: "the next event of the same meaning would happen as well, or as one of an owner of which nothing is known",
			Until:    "its window and its tombstone's horizon are over, its owner is settled, and no effect that may still ask for it is left; a discard gives it back",
			Keeps: []Keep{
				{"effect_key", `EXISTS (SELECT FROM {effect} o WHERE o.id = k.effect_id AND o.state NOT IN ` + settledStates + ` OFFSET 0)`},
				{"effect", `EXISTS (SELECT FROM {effect_key} k WHERE k.effect_id = e.id)`},
			},
		}, {
			Name:     "list",
			Reads:    "effect (event_id, route_id, item): whoever goes on with a list, asks what an earlier call has done of it, or whether its owner certainly never happened",
			Protects: "the list would be written again from its first recipient",
			Until:    "the effect that became the list is gone, which stays until all effects of its event are settled",
			Keeps: []Keep{
				{"effect", `e.item > 0 AND EXISTS (SELECT FROM {effect} h WHERE h.event_id = e.event_id AND h.route_id = e.route_id AND h.item = 0 OFFSET 0)`},
			},
		}, {
			Name:     "attempt",
			Reads:    "effect_attempt.outcome: whether a dead owner certainly never happened, so that it loses its key or is moved to another target",
			Protects: "what has happened would pass for what never did",
			Until:    "its effect is gone; erasing leaves the row without its excerpt",
		}, {
			Name:     "open replay",
			Reads:    "replay_item and replay: the next step of a run",
			Protects: "a run would find less than was planned and shown",
			Until:    "the replay is over or has expired, unless a person says otherwise",
			Keeps: []Keep{
				{"effect", openItemOf(`NOT {replays} AND i.effect_id = e.id`)},
				{"inbox_event", openItemOf(`NOT {replays} AND i.event_id = e.id`)},
			},
		}, {
			Name:     "effect to be made",
			Reads:    "effect (event_id, route_id, item) and effect.idempotency_key: the step of a replay that makes an effect for a route that is new to the event",
			Protects: "the step would make once more an effect that was there, and happened",
			Until:    "the replay that makes it is over, whatever a person says",
			Keeps:    []Keep{{"effect", openItemOf(`i.event_id = e.event_id AND i.action = 'create' AND i.route_id = e.route_id`)}},
		}, {
			Name:     "place in a stream",
			Reads:    "effect.sequence_number: a stream that stands still counts what is settled ahead of it",
			Protects: "the number would be missing, and the stream would wait for it",
			Until:    "the stream has come past the number, or nothing holds it up",
			Keeps: []Keep{{"effect", `EXISTS (
        SELECT FROM stream s
        WHERE s.route_id = e.route_id AND s.key_hash = e.sequence_key_hash AND e.sequence_number > s.applied
            AND (s.gap_since IS NOT NULL OR s.blocked_by IS NOT NULL OR s.in_flight IS NOT NULL))`}},
		}, {
			Name:     "stream",
			Reads:    "stream.applied: the claim of an ordered effect",
			Protects: "the sequence would begin anew: an older version would pass for a new one, or the stream would wait for its first number",
			Until:    "it has been idle for its tombstone's horizon and has no effect; for ever once a contiguous one has begun",
			Keeps: []Keep{
				{"stream", `EXISTS (SELECT FROM {effect} e WHERE e.route_id = s.route_id AND e.sequence_key_hash = s.key_hash)`},
				{"stream", `s.applied IS NOT NULL AND EXISTS (
        SELECT FROM route_version v WHERE v.route_id = s.route_id AND v.definition -> 'order' ->> 'mode' = 'contiguous' OFFSET 0)`},
			},
		}, {
			Name:     "stored result",
			Reads:    "operation_result, or effect of the event: every answer to a call, and the later call",
			Protects: "the result would be made again of whatever is left of the effects, and a call that resumes it would repeat the rest",
			Until:    "every effect of the event is settled and past its horizon; erasing removes the document, and it is rendered again without what was erased",
			Keeps: []Keep{
				{"effect", `e.item = 0 AND EXISTS (SELECT FROM {effect} f WHERE f.event_id = e.event_id AND (` + mayReturn("f") + `) OFFSET 0)`},
			},
		}, {
			Name:     "who follows whom",
			Reads:    "operation_follow (parent, kind, intent_hash): the gate, and the attempt of the later call",
			Protects: "two calls could continue one call, or the later one would not know what it continues",
			Until:    "both events are gone",
		}, {
			Name:     "recent call",
			Reads:    "recent_call: whether a call repeats another one under a new key",
			Protects: "the repeated call would be carried out as a new one",
			Until:    "its window is over, or the event of the call is gone",
		},
	}
}

// KeptRows is the condition under which no guard keeps a row of the table. names replaces the names in braces in the rules.
// without leaves out rules, which only a test does: each is the guard's name and the number of the rule, as "list/0".
func KeptRows(table string, names *strings.Replacer, without ...string) string {
	var out strings.Builder
	for _, g := range Guards() {
		for i, k := range g.Keeps {
			if k.Table != table {
				continue
			}
			out.WriteString("\n    AND NOT (")
			if slices.Contains(without, fmt.Sprintf("%s/%d", g.Name, i)) {
				out.WriteString("false AND ") // its parameters stay
			}
			out.WriteString(names.Replace(k.While) + ")")
		}
	}
	return out.String()
}
