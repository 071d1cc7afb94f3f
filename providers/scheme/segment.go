package scheme

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Segment's choice
	"encoding/hex"
	"encoding/json"
)

// Segment signs one event, or the first of a batch. It is Go because what is
// signed depends on what the body is, and the events after the first are not
// signed at all: they are never taken for authentic.
type Segment struct{}

// Check takes any secret: it is the shared secret of the destination.
func (Segment) Check([]byte) error { return nil }

// Prepare has nothing to check.
func (Segment) Prepare(Settings) error { return nil }

const segmentHeader = "X-Signature"

// Verify compares the signature.
func (Segment) Verify(in *Input) (Result, error) {
	value, err := in.needed(segmentHeader, Unsigned)
	if err != nil {
		return Result{}, err
	}
	sum, decodeErr := hex.DecodeString(value)
	if decodeErr != nil || len(sum) != sha1.Size {
		return Result{}, refuse(Malformed, "header "+segmentHeader+" is not a signature in hex")
	}
	message, batch := segmentMessage(in.Body)
	name, ok := in.match(func(secret []byte) bool { return hmac.Equal(segmentSum(secret, message), sum) })
	if !ok {
		return Result{}, refuse(Mismatch, "no live secret matches header "+segmentHeader)
	}
	result := Result{Secret: name}
	if batch {
		result.Covered = 1
	}
	return result, nil
}

// segmentMessage is the body, or the first event of a batch as it is written.
func segmentMessage(body []byte) (message []byte, batch bool) {
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	if len(trimmed) == 0 || trimmed[0] != '[' {
		return body, false
	}
	decoder := json.NewDecoder(bytes.NewReader(trimmed[1:]))
	var first json.RawMessage
	if decoder.Decode(&first) != nil {
		return body, false
	}
	return first, true
}

func segmentSum(secret, message []byte) []byte {
	mac := hmac.New(sha1.New, secret)
	mac.Write(message)
	return mac.Sum(nil)
}

// Sign signs as Segment does.
func (Segment) Sign(in *Input, secret []byte) error {
	message, _ := segmentMessage(in.Body)
	in.Header.Set(segmentHeader, hex.EncodeToString(segmentSum(secret, message)))
	return nil
}
