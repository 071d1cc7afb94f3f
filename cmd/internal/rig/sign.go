package rig

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// StripeSignature is the Stripe-Signature header for a body: an HMAC-SHA256,
// in hex, of the Unix time, a dot and the body, under the secret as it is.
// See https://docs.stripe.com/webhooks#verify-manually.
func StripeSignature(secret string, at time.Time, body []byte) string {
	unix := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(unix))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return "t=" + unix + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
