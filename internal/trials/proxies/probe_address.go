package proxies

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Twilio's choice
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"net/http"
	"strings"
)

// probeAddresses delivers for two senders whose signatures cover the address: Square with the body after it
// (https://developer.squareup.com/docs/webhooks/step3validate), and Twilio with a query in it and the fields of the form after it
// (https://www.twilio.com/docs/usage/webhooks/webhooks-security).
func (c *campaign) probeAddresses(ctx context.Context) error {
	square := `{"merchant_id":"M","type":"payment.updated","event_id":"square-1","created_at":"2026-11-28T12:00:00Z","data":{"id":"P"}}`
	header := http.Header{"Content-Type": {"application/json"}, "X-Square-Hmacsha256-Signature": {signed(sha256.New, c.url()+"/in/square"+square)}}
	c.note("the address that Square signs", "200", c.post(ctx, "/in/square", header, square).String())

	address := "/in/twilio?tenant=a%20b&path=%2Fx%2F..%2Fy&plus=1+1"
	form := "CallSid=CA1&CallStatus=completed&SequenceNumber=1"
	header = http.Header{
		"Content-Type": {"application/x-www-form-urlencoded"}, "I-Twilio-Idempotency-Token": {"twilio-1"},
		"X-Twilio-Signature": {signed(sha1.New, c.url()+address+"CallSidCA1CallStatuscompletedSequenceNumber1")},
	}
	c.note("the address with a query that Twilio signs", "200", c.post(ctx, address, header, form).String())
	return ctx.Err()
}

// signed is an HMAC of a text in base64.
func signed(algorithm func() hash.Hash, text string) string {
	mac := hmac.New(algorithm, []byte(secret))
	mac.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// post sends a body once through the proxy.
func (c *campaign) post(ctx context.Context, path string, header http.Header, body string) answer {
	return send(ctx, c.newClient(false), request{method: http.MethodPost, url: c.url() + path, header: header, body: strings.NewReader(body), length: int64(len(body))})
}

// certificateHeader is the header of RFC 9440 for the sender's certificate.
func (c *campaign) certificateHeader() http.Header {
	return http.Header{"Content-Type": {"application/json"}, "Client-Cert": {fmt.Sprintf(":%s:", base64.StdEncoding.EncodeToString(c.sender))}}
}
