package place

import (
	"encoding/json"

	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
)

// The places of sealed content. The names are authenticated with the content. Stored: never change.

// Body is the place of the body of a delivery, by its id.
func Body(id [16]byte) seal.Place {
	return seal.Place{Table: "inbox_body", Column: "body", Row: id}
}

// Headers is the place of the headers of a delivery, by the id of its body.
func Headers(id [16]byte) seal.Place {
	return seal.Place{Table: "inbox_body", Column: "headers", Row: id}
}

// Rendered is the place of the request of an effect, as rendered before its first attempt.
func Rendered(effect [16]byte) seal.Place {
	return seal.Place{Table: "effect", Column: "rendered", Row: effect}
}

// Fetched is the place of the answer that was fetched for an effect.
func Fetched(effect [16]byte) seal.Place {
	return seal.Place{Table: "effect", Column: "fetched", Row: effect}
}

// Result is the place of a result, by the effect that made it: a duplicate's row contains its owner's result.
func Result(effect [16]byte) seal.Place {
	return seal.Place{Table: "effect", Column: "result", Row: effect}
}

// Excerpt is the place of the excerpt of an attempt's answer, by its effect.
func Excerpt(effect [16]byte) seal.Place {
	return seal.Place{Table: "effect_attempt", Column: "excerpt", Row: effect}
}

// Document is the place of the result of an operation, by its event.
func Document(event [16]byte) seal.Place {
	return seal.Place{Table: "operation_result", Column: "document", Row: event}
}

// Suppressed is the place of a suppressed address, by the id of its row.
func Suppressed(id [16]byte) seal.Place {
	return seal.Place{Table: "suppression", Column: "address", Row: id}
}

// Diff is the place of the diff of a replay's item.
func Diff(replay [16]byte, position int64) seal.Place {
	return seal.Place{Table: "replay_item", Column: "diff", Row: replay, Item: position}
}

func refusalPlace(id [16]byte, column string) seal.Place {
	return seal.Place{Table: "refusal", Column: column, Row: id}
}

// Conflict is the place of a column of a conflict's row ("headers" or "body").
func Conflict(id [16]byte, column string) seal.Place {
	return seal.Place{Table: "conflict", Column: column, Row: id}
}

// labelPlace is the place of a stream's readable key. The stream's own id is not known when its row is made,
// so the hash of the key names the place.
func labelPlace(routeID int32, hash []byte) seal.Place {
	return seal.Place{Table: "stream", Column: "key_label", Row: [16]byte(hash[:16]), Item: int64(routeID)}
}

func conflictSequencePlace(id [16]byte) seal.Place {
	return seal.Place{Table: "conflict", Column: "sequence", Row: id}
}

// Label is the stored readable key of a stream: in plain or sealed, or neither once it was erased.
type Label struct {
	Plain  *string
	Sealed []byte
	KeyID  *int32
}

// SealLabel seals the key of a stream for people, or keeps it in plain where ring is nil.
func SealLabel(ring *seal.Ring, routeID int32, hash []byte, key string) Label {
	if ring == nil {
		return Label{Plain: &key}
	}
	sealed, keyID := ring.Seal(labelPlace(routeID, hash), []byte(key))
	return Label{Sealed: sealed, KeyID: keyID}
}

// Open returns the readable key. missing is the sealing key without which it cannot be read.
func (l *Label) Open(keys *seal.Keyring, routeID int32, hash []byte) (key string, missing int32) {
	switch {
	case l.Plain != nil:
		return *l.Plain, 0
	case l.Sealed == nil || l.KeyID == nil:
		return "", 0
	}
	plain, err := keys.Open(labelPlace(routeID, hash), l.KeyID, l.Sealed)
	if err != nil {
		return "", *l.KeyID
	}
	return string(plain), 0
}

// OpenPart opens the bytes of one event: the database has cut a plain body, OpenPart cuts a sealed one.
func OpenPart(keys *seal.Keyring, bodyID [16]byte, keyID *int32, stored []byte, offset, length int) ([]byte, error) {
	if keyID == nil || stored == nil {
		return stored, nil
	}
	body, err := keys.Open(Body(bodyID), keyID, stored)
	if err != nil {
		return nil, err
	}
	if offset < 0 || length < 0 || offset+length > len(body) {
		return nil, seal.ErrDamaged
	}
	return body[offset : offset+length], nil
}

// SealRefusal seals the headers and body of a refusal with one key. keyID is nil where there is no keyring.
func SealRefusal(keys *seal.Keyring, id [16]byte, headers, body []byte) (sealedHeaders, sealedBody []byte, keyID *int32) {
	ring := keys.Ring()
	sealedHeaders, _ = ring.Seal(refusalPlace(id, "headers"), headers)
	sealedBody, keyID = ring.Seal(refusalPlace(id, "body"), row.NotNil(body))
	return sealedHeaders, sealedBody, keyID
}

// OpenRefusal opens what [SealRefusal] sealed.
func OpenRefusal(keys *seal.Keyring, id [16]byte, keyID *int32, headers, body []byte) (openHeaders, openBody []byte, err error) {
	if openHeaders, err = keys.Open(refusalPlace(id, "headers"), keyID, headers); err != nil {
		return nil, nil, err
	}
	openBody, err = keys.Open(refusalPlace(id, "body"), keyID, body)
	return openHeaders, openBody, err
}

// SealConflict seals the headers and body of a conflict with one key. keyID is nil where there is no keyring.
func SealConflict(keys *seal.Keyring, id [16]byte, headers, body []byte) (sealedHeaders, sealedBody []byte, keyID *int32) {
	ring := keys.Ring()
	sealedHeaders, _ = ring.Seal(Conflict(id, "headers"), row.NotNil(headers))
	sealedBody, keyID = ring.Seal(Conflict(id, "body"), row.NotNil(body))
	return sealedHeaders, sealedBody, keyID
}

// ConflictSequence is a sequence key and number as they came, which may be bytes that no
// text column takes. It is sealed as JSON. Stored: never change.
type ConflictSequence struct{ Key, Number []byte }

// SealSequence returns the values of the plain columns and of the sealed one.
func SealSequence(keys *seal.Keyring, id [16]byte, key, number string) (plain ConflictSequence, sealed []byte, keyID *int32) {
	plain = ConflictSequence{Key: []byte(key), Number: []byte(number)}
	ring := keys.Ring()
	if ring == nil || key == "" && number == "" {
		return plain, nil, nil
	}
	text, _ := json.Marshal(plain) // bytes always marshal
	sealed, keyID = ring.Seal(conflictSequencePlace(id), text)
	return ConflictSequence{Key: []byte{}, Number: []byte{}}, sealed, keyID
}

// Open sets the empty plain columns from the sealed value.
func (s *ConflictSequence) Open(keys *seal.Keyring, id [16]byte, keyID *int32, sealed []byte) error {
	if sealed == nil {
		return nil
	}
	text, err := keys.Open(conflictSequencePlace(id), keyID, sealed)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, s)
}

// OpenConflict opens what [SealConflict] sealed.
func OpenConflict(keys *seal.Keyring, id [16]byte, keyID *int32, headers, body []byte) (openHeaders, openBody []byte, err error) {
	if openHeaders, err = keys.Open(Conflict(id, "headers"), keyID, headers); err != nil {
		return nil, nil, err
	}
	openBody, err = keys.Open(Conflict(id, "body"), keyID, body)
	return openHeaders, openBody, err
}

// SealExcerpt returns the values of the text column and of the sealed one.
func SealExcerpt(keys *seal.Keyring, effect [16]byte, excerpt string) (text string, sealed []byte, keyID *int32) {
	if excerpt == "" {
		return "", nil, nil
	}
	stored, keyID := keys.Seal(Excerpt(effect), []byte(excerpt))
	if keyID == nil {
		return excerpt, nil, nil
	}
	return "", stored, keyID
}
