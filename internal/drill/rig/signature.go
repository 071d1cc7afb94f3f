package rig

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"time"
)

// StripeSignature is the Stripe-Signature header for a body: an HMAC-SHA256, in hex, of the Unix
// time, a dot and the body, with the secret as the key. See
// https://docs.stripe.com/webhooks#verify-manually.
func StripeSignature(secret string, at time.Time, body []byte) string {
	unix := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(unix))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return "t=" + unix + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// GitHubSignature is the X-Hub-Signature-256 header for a body: an HMAC-SHA256, in hex, of the
// body, with the secret as the key. See
// https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries.
func GitHubSignature(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// StandardSignature is the webhook-signature header for a body: an HMAC-SHA256, in
// base64, of the id, the Unix time and the body with dots between them, under the
// key. See https://github.com/standard-webhooks/standard-webhooks.
func StandardSignature(key []byte, id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
