package operation

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/seal"
)

// EventOutcome is the outcome of an event so far, derived from its effects.
type EventOutcome struct {
	Event inbox.ID `json:"event"`

	// Effects are in the order of their routes; at most [MaxOutcomeEffects].
	Effects []EffectOutcome `json:"effects"`

	// Omitted is how many more there are.
	Omitted int `json:"omitted,omitempty"`

	// AtRest means that no effect continues by itself.
	AtRest bool `json:"-"`

	// Pruned: the event had effects, but they and their outcomes were removed.
	Pruned bool `json:"-"`

	operation string
	eventID   string
	repeat    bool   // it was suspected to repeat another call under another key
	intent    []byte // the stored hash of the canonical payload
	admission string
	parent    inbox.ID
	document  []byte
	dead      int
	unknown   int
	happened  int
	final     int // of the dead ones, those that would end the same way in a repeated call
	taken     int // those recorded because the route takes the event, and not only for its sequence number
	parted    int // of the dead ones, those whose list earlier calls have done in part
	details   int // of the effects, those with a Detail

	// sealed is why a result or the document cannot be read. No document is rendered then, because it would be
	// stored and never corrected.
	sealed error
}

// EffectOutcome is the state of one effect of an event.
type EffectOutcome struct {
	Route  string            `json:"route"`
	State  inbox.EffectState `json:"state"`
	Reason reasons.Reason    `json:"reason,omitempty"`

	// Code and Detail are the target's last answer to an effect that is dead or indeterminate: its status, reply
	// code or SQLSTATE, and the beginning of its text. The text contains no secret of the target, and only
	// characters that can be shown.
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail,omitempty" shows:"content"`

	// Result is what was kept of a success: JSON unchanged, other text as a string, and nothing if the result is
	// neither.
	Result json.RawMessage `json:"result,omitempty" shows:"content"`

	// List sums up the list that the effect became; nil if it became none.
	List *ListOutcome `json:"list,omitempty"`

	// Item is the position of the item in the list as the caller sent it; 0 for an effect that is no item.
	Item int `json:"item,omitempty"`
}

// MaxOutcomeEffects bounds how many effects of an event an answer lists, and
// MaxOutcomeItems how many items of each list are among them.
const (
	MaxOutcomeEffects = 1000
	MaxOutcomeItems   = 100
)

// How much of what targets said an answer repeats: bytes of each text, and number of texts.
const (
	maxDetail  = 500
	maxDetails = 100
)

// Of the effects e of an event, or their owners o: one that is dead, or that an operator had discarded or pruned while it was unsettled.
const givenUp = `(coalesce(o.state, e.state) = 'dead' OR coalesce(o.reason, e.reason) IN ('discarded', 'pruned'))`

// A duplicate has the outcome of its owner: a caller that repeats an effect gets the outcome of the first one. A
// discarded effect did not happen. The rows of an event's effects are counted before the limit applies. An effect
// that was abandoned after an attempt with an unknown outcome may have happened: a caller that took it for failed
// would do it twice. An effect that became several is done when they are written; only the items say what
// happened. The target's answer is read only for failed effects, by the key of their attempts. A stored result may promise
// that the call can be resumed; its effects may have been pruned since.
const readOutcomes = `
SELECT v.id, v.type, v.admission, v.parent, d.document, d.key_id,
    d.status <> 'done' AND NOT EXISTS (SELECT FROM effect x WHERE x.event_id = v.id),
    f.route, f.state, f.reason, f.item, f.result, f.result_key_id, f.result_of, coalesce(f.failed, false), coalesce(f.total, 0), coalesce(f.open, 0), coalesce(f.dead, 0), coalesce(f.unknown, 0),
    coalesce(f.happened, 0), coalesce(f.final, 0), coalesce(f.taken, 0), coalesce(f.parted, 0),
    v.event_id, coalesce(v.canonical_sha256, v.body_sha256), v.suspected_replay, f.code, t.code, t.excerpt, t.excerpt_key_id, t.excerpt_sealed
FROM unnest($1::uuid[]) AS a (id)
JOIN inbox_event v ON v.id = a.id
LEFT JOIN operation_result d ON d.event_id = v.id
LEFT JOIN LATERAL (
  SELECT * FROM (
    SELECT r.name AS route, e.state, coalesce(o.reason, e.reason) AS reason, e.item,
        coalesce(o.result, e.result) AS result,
        CASE WHEN o.result IS NULL THEN e.result_key_id ELSE o.result_key_id END AS result_key_id,
        coalesce(e.duplicate_of, e.id) AS result_of,
        coalesce(o.state, e.state) IN ('dead', 'indeterminate') AS failed,
        CASE WHEN o.id IS NULL THEN e.last_code ELSE o.last_code END AS code,
        count(*) OVER () AS total,
        count(*) FILTER (WHERE NOT e.filtered) OVER () AS taken,
        count(*) FILTER (WHERE coalesce(o.state, e.state) IN ('pending', 'claimed', 'retry', 'held')) OVER () AS open,
        count(*) FILTER (WHERE ` + givenUp + ` AND coalesce(o.unknown_since, e.unknown_since) IS NULL) OVER () AS dead,
        count(*) FILTER (WHERE ` + givenUp + ` AND ` + finalEffect + `) OVER () AS final,
        count(*) FILTER (WHERE coalesce(o.state, e.state) = 'indeterminate'
            OR ` + givenUp + ` AND coalesce(o.unknown_since, e.unknown_since) IS NOT NULL) OVER () AS unknown,
        count(*) FILTER (WHERE coalesce(o.reason, e.reason) = 'parent_partial') OVER () AS parted,
        count(*) FILTER (WHERE coalesce(o.state, e.state) IN ('done', 'superseded', 'duplicate') AND NOT (e.item = 0 AND EXISTS (
            SELECT FROM effect i WHERE i.event_id = e.event_id AND i.route_id = e.route_id AND i.item = 1))) OVER () AS happened
    FROM effect e
    JOIN route r ON r.id = e.route_id
    LEFT JOIN effect o ON o.id = e.duplicate_of
    WHERE e.event_id = v.id) counted
  WHERE counted.item <= $6
  ORDER BY counted.route, counted.item
  LIMIT $2) f ON d.event_id IS NULL OR $3
LEFT JOIN LATERAL (
    SELECT x.code, x.excerpt, x.excerpt_key_id, x.excerpt_sealed
    FROM effect_attempt x
    WHERE x.effect_id = f.result_of
    ORDER BY x.version DESC, x.attempt DESC
    LIMIT 1) t ON f.failed
ORDER BY v.id, f.route, f.item`

// outcomes reads the outcomes of the events. For an event whose document is stored it reads nothing else, unless
// effects is true.
func outcomes(ctx context.Context, db row.Querier, keys *seal.Keyring, events []inbox.ID, effects bool) (map[inbox.ID]*EventOutcome, error) {
	rows, err := db.Query(ctx, readOutcomes, events, MaxOutcomeEffects, effects, finalReasons(), finalStatuses(), MaxOutcomeItems)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := make(map[inbox.ID]*EventOutcome, len(events))
	for rows.Next() {
		var (
			id, parent, resultOf                                       inbox.ID
			documentKey, resultKey                                     *int32
			kind, admission                                            string
			document, result                                           []byte
			route, state, reason                                       *string
			item                                                       *int
			total, open, dead, unknown, happened, final, taken, parted int
			failed, repeat                                             bool
			outlived                                                   *bool
			eventID                                                    string
			intent                                                     []byte
			said                                                       lastAnswer
		)
		if err := rows.Scan(&id, &kind, &admission, &parent, &document, &documentKey, &outlived, &route, &state, &reason, &item, &result, &resultKey, &resultOf, &failed,
			&total, &open, &dead, &unknown, &happened, &final, &taken, &parted,
			&eventID, &intent, &repeat, &said.lastCode, &said.code, &said.excerpt, &said.keyID, &said.sealed); err != nil {
			return nil, err
		}
		o := out[id]
		if o == nil {
			o = &EventOutcome{
				Event: id, Effects: []EffectOutcome{}, operation: kind, eventID: eventID, intent: intent, repeat: repeat, admission: admission, parent: parent,
				AtRest: open == 0, dead: dead, unknown: unknown, happened: happened, final: final, taken: taken, parted: parted,
				Pruned: admission == inbox.AdmissionOK && total == 0,
			}
			o.document, o.sealed = keys.Open(place.Document(id), documentKey, document)
			if o.sealed == nil && outlived != nil && *outlived {
				o.document, o.sealed = withoutEffects(o.document)
			}
			if o.sealed != nil {
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
		e := EffectOutcome{Route: *route, State: inbox.EffectState(*state), Result: embeddable(result), Item: *item}
		if reason != nil {
			e.Reason = reasons.Reason(*reason)
		}
		if failed {
			e.Code = said.givenCode()
			if o.details < maxDetails {
				if e.Detail = said.detail(keys, resultOf, e.Reason); e.Detail != "" {
					o.details++
				}
			}
		}
		o.Effects = append(o.Effects, e)
		o.Omitted = total - len(o.Effects)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	rows.Close() // the connection is needed again
	return out, addLists(ctx, db, out, effects)
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
// and says so. An event that a route took had effects: if there are none, they were
// pruned, and their outcome is unknown.
func (o *EventOutcome) status() ResultStatus {
	switch {
	case o.Pruned:
		return ResultIndeterminate
	case o.taken == 0:
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

// render makes the document that the caller gets from now on. It is retriable if a new call, under a new key,
// does no harm and may end otherwise: nothing of this call happened (so a partial one never is), and each of its
// effects may succeed. The new call names this one, as next says.
func (o *EventOutcome) render() (ResultStatus, []byte, error) {
	status := o.status()
	document := resultDocument{
		Event: o.Event, Operation: o.operation, Status: status, EventOutcome: o,
		Retriable: status == ResultFailed && o.taken > 0 && o.final == 0, Next: o.next(status),
		EventID: o.eventID, Repeat: o.repeat,
	}
	if !inbox.HashHasKey(o.intent) { // an HMAC is of no use to the caller
		document.IntentHash = hex.EncodeToString(o.intent)
	}
	switch {
	case o.Pruned:
		document.Detail = "its effects are pruned, and no result was stored before: their outcome is not known any more"
	case o.taken == 0:
		document.Detail = "no effect was recorded: " + o.admission
	}
	if !o.parent.IsZero() {
		document.Parent = o.parent.String()
	}
	text, err := document.marshal()
	return status, text, err
}

// resultDocument is what the caller of an operation reads of it.
type resultDocument struct {
	Event      inbox.ID     `json:"event"`
	Operation  string       `json:"operation"`
	Status     ResultStatus `json:"status"`
	Retriable  bool         `json:"retriable"`
	Next       Next         `json:"next"`
	Detail     string       `json:"detail,omitempty"`
	Parent     string       `json:"parent,omitempty"`
	EventID    string       `json:"event_id"`
	IntentHash string       `json:"intent_hash,omitempty"`
	Repeat     bool         `json:"suspected_repeat,omitempty"`
	*EventOutcome
}

func (d *resultDocument) marshal() ([]byte, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("rendering the result of event %s: %w", d.Event, err)
	}
	return append(text, '\n'), nil
}

// withoutEffects returns a stored document whose effects are pruned. Such a call cannot be resumed, because
// nothing says what to leave out. If nothing of it happened, another call may take its place; else a person has to decide.
func withoutEffects(stored []byte) ([]byte, error) {
	var d resultDocument
	if err := json.Unmarshal(stored, &d); err != nil {
		return nil, fmt.Errorf("reading a stored result: %w", err)
	}
	if d.Next != NextResume {
		return stored, nil
	}
	d.Next, d.Retriable, d.Detail = NextAskOperator, false, "its effects are pruned, so it cannot be resumed"
	if d.Status == ResultFailed {
		d.Next = NextReplace
	}
	return d.marshal()
}
