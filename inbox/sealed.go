package inbox

import (
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

// seal makes what will be stored of the delivery; in the caller's goroutine, so
// that the flusher need not.
func (d *delivery) seal(keys *seal.Keyring) {
	ring := keys.Ring()
	d.headers, _ = ring.Seal(headerPlace(d.bodyID), d.headers)
	d.body, d.keyID = ring.Seal(bodyPlace(d.bodyID), d.body)
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
