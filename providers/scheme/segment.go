package scheme

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Segment's choice
	"encoding/hex"
	"encoding/json"
)

// Segment verifies a signature over one event, or over the first event of a batch. It is written in
// Go because the signed text depends on the form of the body. The other events of a batch are not
// signed, so they are never treated as authentic.
type Segment struct{}

// Check accepts any secret, the shared secret of the destination.
func (Segment) Check([]byte) error { return nil }

// Prepare checks nothing.
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

// segmentMessage returns the signed text: the body, or the unchanged bytes of a batch's first
// event.
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
