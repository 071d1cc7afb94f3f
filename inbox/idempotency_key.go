package inbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"strconv"
)

// IdempotencyKey is made from what the effect means, so that every retry, on
// every layer and after every restore, sends the same one. The lengths keep
// parts from running into each other. source and route are the names under which
// they were first registered: a key does not change with a name.
func IdempotencyKey(source, eventID, route string) string {
	return "og1_" + digestOf(sha256.New(), source, eventID, route)
}

// MeaningKey is the idempotency key of an effect whose route has a recipe: it is made of the recipe's key instead of the event, so
// that two events with one meaning carry one key at the target, also where this database does not know the other event any more.
// source and route are as in [IdempotencyKey]. The recipe's key is a hash of content, and the target and
// everybody who reads metadata see the idempotency key, so it is hashed under the installation's secret, where there is one. The
// secret is in the database and never rotated, so the key survives a restore. Stored: never change.
func MeaningKey(secret []byte, source, route string, recipe []byte) string {
	h := sha256.New()
	if secret != nil {
		h = hmac.New(sha256.New, secret)
	}
	return "og2_" + digestOf(h, source, route, string(recipe))
}

func digestOf(h hash.Hash, parts ...string) string {
	for _, part := range parts {
		h.Write([]byte(strconv.Itoa(len(part))))
		h.Write([]byte{':'})
		h.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
