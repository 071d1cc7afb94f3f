package inbox

import (
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
)

// EventOutcome is what has become of an event so far, as its effects say.
type EventOutcome struct {
	Event ID `json:"event"`

	// Effects are in the order of their routes; at most [MaxOutcomeEffects].
	Effects []EffectOutcome `json:"effects"`

	// Omitted is how many more there are.
	Omitted int `json:"omitted,omitempty"`

	// AtRest: no effect will go on by itself.
	AtRest bool `json:"-"`

	operation string
	admission string
	parent    ID
	document  []byte
	dead      int
	unknown   int
	happened  int
	final     int // of the dead ones, those that the same call cannot end otherwise

	// sealed is why a result or the document cannot be read: no document is made of
	// it, since that would stand for ever.
	sealed error
}

// EffectOutcome is where one effect of an event stands.
type EffectOutcome struct {
	Route  string      `json:"route"`
	State  EffectState `json:"state"`
	Reason Reason      `json:"reason,omitempty"`

	// Result is what was kept of a success: JSON as it is, other text as a string,
	// nothing of what is neither.
	Result json.RawMessage `json:"result,omitempty"`
}

// MaxOutcomeEffects bounds how many effects of an event an answer lists.
const MaxOutcomeEffects = 1000

// A duplicate is what its owner is: who repeats an effect gets the first one's
// outcome. What was discarded did not happen. The rows of an event's effects are counted before they are cut off.
// One that was given up after an attempt whose outcome is unknown may have
// happened: a caller who took it for failed would do it twice. An effect that
// became several is done when they are written; only they say what happened.
const readOutcomes = `
SELECT v.id, v.type, v.admission, v.parent, d.document, d.key_id,
    f.route, f.state, f.reason, f.result, f.result_key_id, f.result_of, coalesce(f.total, 0), coalesce(f.open, 0), coalesce(f.dead, 0), coalesce(f.unknown, 0),
    coalesce(f.happened, 0), coalesce(f.final, 0)
FROM unnest($1::uuid[]) AS a (id)
JOIN inbox_event v ON v.id = a.id
LEFT JOIN operation_result d ON d.event_id = v.id
LEFT JOIN LATERAL (
    SELECT r.name AS route, e.state, coalesce(o.reason, e.reason) AS reason, e.item,
        coalesce(o.result, e.result) AS result,
        CASE WHEN o.result IS NULL THEN e.result_key_id ELSE o.result_key_id END AS result_key_id,
        coalesce(e.duplicate_of, e.id) AS result_of,
        count(*) OVER () AS total,
        count(*) FILTER (WHERE coalesce(o.state, e.state) IN ('pending', 'claimed', 'retry', 'held')) OVER () AS open,
        count(*) FILTER (WHERE (coalesce(o.state, e.state) = 'dead' OR coalesce(o.reason, e.reason) = 'discarded')
            AND coalesce(o.unknown_since, e.unknown_since) IS NULL) OVER () AS dead,
        count(*) FILTER (WHERE (coalesce(o.state, e.state) = 'dead' OR coalesce(o.reason, e.reason) = 'discarded') AND ` + finalEffect + `) OVER () AS final,
        count(*) FILTER (WHERE coalesce(o.state, e.state) = 'indeterminate'
            OR (coalesce(o.state, e.state) = 'dead' OR coalesce(o.reason, e.reason) = 'discarded')
                AND coalesce(o.unknown_since, e.unknown_since) IS NOT NULL) OVER () AS unknown,
        count(*) FILTER (WHERE coalesce(o.state, e.state) IN ('done', 'superseded', 'duplicate') AND NOT (e.item = 0 AND EXISTS (
            SELECT FROM effect i WHERE i.event_id = e.event_id AND i.route_id = e.route_id AND i.item = 1))) OVER () AS happened
    FROM effect e
    JOIN route r ON r.id = e.route_id
    LEFT JOIN effect o ON o.id = e.duplicate_of
    WHERE e.event_id = v.id
    ORDER BY r.name, e.item
    LIMIT $2) f ON d.event_id IS NULL OR $3
ORDER BY v.id, f.route, f.item`

// outcomes reads where the events stand. Of one whose document is stored it
// reads nothing else, unless effects is true.
func outcomes(ctx context.Context, db row.Querier, keys *seal.Keyring, events []ID, effects bool) (map[ID]*EventOutcome, error) {
	rows, err := db.Query(ctx, readOutcomes, events, MaxOutcomeEffects, effects, finalReasons(), finalStatuses())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := make(map[ID]*EventOutcome, len(events))
	for rows.Next() {
		var (
			id, parent, resultOf                        ID
			documentKey, resultKey                      *int32
			kind, admission                             string
			document, result                            []byte
			route, state, reason                        *string
			total, open, dead, unknown, happened, final int
		)
		if err := rows.Scan(&id, &kind, &admission, &parent, &document, &documentKey, &route, &state, &reason, &result, &resultKey, &resultOf,
			&total, &open, &dead, &unknown, &happened, &final); err != nil {
			return nil, err
		}
		o := out[id]
		if o == nil {
			o = &EventOutcome{
				Event: id, Effects: []EffectOutcome{}, operation: kind, admission: admission, parent: parent,
				AtRest: open == 0, dead: dead, unknown: unknown, happened: happened, final: final,
			}
			if o.document, o.sealed = keys.Open(place.Document(id), documentKey, document); o.sealed != nil {
				o.document = nil
			}
			out[id] = o
		}
		if route == nil {
			continue
		}
		if result, err = keys.Open(place.Result(resultOf), resultKey, result); err != nil {
			o.sealed, result = err, nil
		}
		e := EffectOutcome{Route: *route, State: EffectState(*state), Result: embeddable(result)}
		if reason != nil {
			e.Reason = Reason(*reason)
		}
		o.Effects = append(o.Effects, e)
		o.Omitted = total - len(o.Effects)
	}
	return out, rows.Err()
}

func embeddable(result []byte) json.RawMessage {
	switch {
	case len(result) == 0:
		return nil
	case json.Valid(result):
		return result
	case utf8.Valid(result):
		text, _ := json.Marshal(string(result)) // a string always marshals
		return text
	}
	return nil
}

// ResultStatus is how an operation ended, all its effects taken together. Stored:
// never change.
type ResultStatus string

// How an operation may end. Stored: never change.
const (
	// ResultDone: everything happened, or was not to happen.
	ResultDone ResultStatus = "done"
	// ResultFailed: nothing happened.
	ResultFailed ResultStatus = "failed"
	// ResultPartial: some of it happened.
	ResultPartial ResultStatus = "partial"
	// ResultIndeterminate: something may have happened; a person or a probe decides.
	ResultIndeterminate ResultStatus = "indeterminate"
)

// status sums the effects up. An operation that no route takes has done nothing,
// and says so.
func (o *EventOutcome) status() ResultStatus {
	switch {
	case o.admission != AdmissionOK:
		return ResultFailed
	case o.unknown > 0:
		return ResultIndeterminate
	case o.dead > 0 && o.happened > 0:
		return ResultPartial
	case o.dead > 0:
		return ResultFailed
	}
	return ResultDone
}

// render makes the document that the caller gets now and ever after. It is retriable
// if a new call, under a new key, does no harm and may end otherwise: nothing of this
// one happened, so partial never is, and each of its effects may succeed.
func (o *EventOutcome) render() (ResultStatus, []byte, error) {
	status := o.status()
	document := struct {
		Event     ID           `json:"event"`
		Operation string       `json:"operation"`
		Status    ResultStatus `json:"status"`
		Retriable bool         `json:"retriable"`
		Detail    string       `json:"detail,omitempty"`
		Parent    string       `json:"parent,omitempty"`
		*EventOutcome
	}{
		Event: o.Event, Operation: o.operation, Status: status, EventOutcome: o,
		Retriable: status == ResultFailed && o.admission == AdmissionOK && o.final == 0,
	}
	if o.admission != AdmissionOK {
		document.Detail = "no effect was recorded: " + o.admission
	}
	if !o.parent.IsZero() {
		document.Parent = o.parent.String()
	}
	text, err := json.Marshal(document)
	if err != nil {
		return "", nil, fmt.Errorf("rendering the result of event %s: %w", o.Event, err)
	}
	return status, append(text, '\n'), nil
}
