package inbox

import (
	"encoding/json"
	"errors"

	"github.com/oncegate/oncegate/inbox/seal"
)

// Where what is sealed is stored. The names are authenticated with the content.
// Stored: never change.

func bodyPlace(id ID) seal.Place { return seal.Place{Table: "inbox_body", Column: "body", Row: id} }
func headerPlace(id ID) seal.Place {
	return seal.Place{Table: "inbox_body", Column: "headers", Row: id}
}

func renderedPlace(effect ID) seal.Place {
	return seal.Place{Table: "effect", Column: "rendered", Row: effect}
}

// resultPlace is that of the effect whose result it is: a duplicate's row holds
// its owner's.
func resultPlace(effect ID) seal.Place {
	return seal.Place{Table: "effect", Column: "result", Row: effect}
}

func excerptPlace(effect ID) seal.Place {
	return seal.Place{Table: "effect_attempt", Column: "excerpt", Row: effect}
}

func documentPlace(event ID) seal.Place {
	return seal.Place{Table: "operation_result", Column: "document", Row: event}
}

func diffPlace(replay ID, position int64) seal.Place {
	return seal.Place{Table: "replay_item", Column: "diff", Row: replay, Item: position}
}

func refusalPlace(id ID, column string) seal.Place {
	return seal.Place{Table: "refusal", Column: column, Row: id}
}

func conflictPlace(id ID, column string) seal.Place {
	return seal.Place{Table: "conflict", Column: column, Row: id}
}

// labelPlace is that of a stream's key as people see it. The stream's own id is not
// known when its row is made, so the place is named by the hash of the key.
func labelPlace(routeID int32, hash []byte) seal.Place {
	return seal.Place{Table: "stream", Column: "key_label", Row: ID(hash[:16]), Item: int64(routeID)}
}

func conflictSequencePlace(id ID) seal.Place {
	return seal.Place{Table: "conflict", Column: "sequence", Row: id}
}

// seal makes what will be stored of the delivery; in the caller's goroutine, so
// that the flusher need not.
func (d *delivery) seal(keys *seal.Keyring) {
	ring := keys.Ring()
	d.headers, _ = ring.Seal(headerPlace(d.bodyID), d.headers)
	d.body, d.keyID = ring.Seal(bodyPlace(d.bodyID), d.body)
	for i := range d.entries {
		for j := range d.entries[i].effects {
			if e := &d.entries[i].effects[j]; e.place != nil && e.place.hash != nil {
				e.place.label = sealLabel(ring, e.route.ID, e.place.hash, e.place.key)
			}
		}
	}
}

// label is the key of a stream as it is stored for people: in plain or sealed, or
// neither once it was erased.
type label struct {
	plain  *string
	sealed []byte
	keyID  *int32
}

func sealLabel(ring *seal.Ring, routeID int32, hash []byte, key string) label {
	if ring == nil {
		return label{plain: &key}
	}
	sealed, keyID := ring.Seal(labelPlace(routeID, hash), []byte(key))
	return label{sealed: sealed, keyID: keyID}
}

// open gives the key for people. missing is the sealing key without which it cannot be
// read.
func (l *label) open(keys *seal.Keyring, routeID int32, hash []byte) (key string, missing int32) {
	switch {
	case l.plain != nil:
		return *l.plain, 0
	case l.sealed == nil || l.keyID == nil:
		return "", 0
	}
	plain, err := keys.Open(labelPlace(routeID, hash), l.keyID, l.sealed)
	if err != nil {
		return "", *l.keyID
	}
	return string(plain), 0
}

// openPart opens the bytes of one event: a plain body was cut by the database, a
// sealed one is cut here.
func openPart(keys *seal.Keyring, bodyID ID, keyID *int32, stored []byte, offset, length int) ([]byte, error) {
	if keyID == nil || stored == nil {
		return stored, nil
	}
	body, err := keys.Open(bodyPlace(bodyID), keyID, stored)
	if err != nil {
		return nil, err
	}
	if offset < 0 || length < 0 || offset+length > len(body) {
		return nil, seal.ErrDamaged
	}
	return body[offset : offset+length], nil
}

func sealRefusal(keys *seal.Keyring, id ID, headers, body []byte) (sealedHeaders, sealedBody []byte, keyID *int32) {
	ring := keys.Ring()
	sealedHeaders, _ = ring.Seal(refusalPlace(id, "headers"), headers)
	sealedBody, keyID = ring.Seal(refusalPlace(id, "body"), notNil(body))
	return sealedHeaders, sealedBody, keyID
}

func openRefusal(keys *seal.Keyring, id ID, keyID *int32, headers, body []byte) (openHeaders, openBody []byte, err error) {
	if openHeaders, err = keys.Open(refusalPlace(id, "headers"), keyID, headers); err != nil {
		return nil, nil, err
	}
	openBody, err = keys.Open(refusalPlace(id, "body"), keyID, body)
	return openHeaders, openBody, err
}

func sealConflict(keys *seal.Keyring, id ID, headers, body []byte) (sealedHeaders, sealedBody []byte, keyID *int32) {
	ring := keys.Ring()
	sealedHeaders, _ = ring.Seal(conflictPlace(id, "headers"), notNil(headers))
	sealedBody, keyID = ring.Seal(conflictPlace(id, "body"), notNil(body))
	return sealedHeaders, sealedBody, keyID
}

// conflictSequence is a sequence key and number as they came, which may be bytes that no
// text column takes. It is sealed as JSON. Stored: never change.
type conflictSequence struct{ Key, Number []byte }

// sealSequence gives what goes into the plain columns and what into the sealed one.
func sealSequence(keys *seal.Keyring, id ID, key, number string) (plain conflictSequence, sealed []byte, keyID *int32) {
	plain = conflictSequence{Key: []byte(key), Number: []byte(number)}
	ring := keys.Ring()
	if ring == nil || key == "" && number == "" {
		return plain, nil, nil
	}
	text, _ := json.Marshal(plain) // bytes always marshal
	sealed, keyID = ring.Seal(conflictSequencePlace(id), text)
	return conflictSequence{Key: []byte{}, Number: []byte{}}, sealed, keyID
}

// open replaces what is empty in the plain columns by what was sealed.
func (s *conflictSequence) open(keys *seal.Keyring, id ID, keyID *int32, sealed []byte) error {
	if sealed == nil {
		return nil
	}
	text, err := keys.Open(conflictSequencePlace(id), keyID, sealed)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, s)
}

func openConflict(keys *seal.Keyring, id ID, keyID *int32, headers, body []byte) (openHeaders, openBody []byte, err error) {
	if openHeaders, err = keys.Open(conflictPlace(id, "headers"), keyID, headers); err != nil {
		return nil, nil, err
	}
	openBody, err = keys.Open(conflictPlace(id, "body"), keyID, body)
	return openHeaders, openBody, err
}

// unopened says why something cannot be opened: a key that this process lacks,
// which another one may have, or content that no key opens.
func unopened(err error) (why Reason, missing int32) {
	if lost, ok := errors.AsType[*seal.LostError](err); ok {
		return ReasonKeyMissing, lost.Key
	}
	return ReasonDamaged, 0
}

// open opens what was read for a claim. What cannot be opened counts as gone, and
// nobody else's claim fails with it: the effect waits for a missing key, and is dead
// if its content is damaged.
func (c *Claim) open(keys *seal.Keyring, renderedKey, bodyKey *int32, bodyID ID, offset, length int) {
	if c.Event.Body == nil && c.Rendered == nil {
		return
	}
	var errs [3]error
	c.Event.Headers, errs[0] = keys.Open(headerPlace(bodyID), bodyKey, c.Event.Headers)
	c.Event.Body, errs[1] = openPart(keys, bodyID, bodyKey, c.Event.Body, offset, length)
	c.Rendered, errs[2] = keys.Open(renderedPlace(c.Effect), renderedKey, c.Rendered)
	if err := errors.Join(errs[:]...); err != nil {
		c.Event.Headers, c.Event.Body, c.Rendered = nil, nil, nil
		c.Event.BodyGone = true
		c.Event.GoneReason, c.Event.MissingKey = unopened(err)
	}
}

// sealExcerpt gives what goes into the text column and what into the sealed one.
func sealExcerpt(keys *seal.Keyring, effect ID, excerpt string) (text string, sealed []byte, keyID *int32) {
	if excerpt == "" {
		return "", nil, nil
	}
	stored, keyID := keys.Seal(excerptPlace(effect), []byte(excerpt))
	if keyID == nil {
		return excerpt, nil, nil
	}
	return "", stored, keyID
}
