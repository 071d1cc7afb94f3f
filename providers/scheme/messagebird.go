package scheme

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// MessageBird verifies a token whose claims contain digests of address and body. It is written in
// Go because the token must have the body's claim if and only if there is a body.
//
// Option algorithms: the algorithms of accepted tokens.
type MessageBird struct{}

// Check accepts any secret, the signing key of the account.
func (MessageBird) Check([]byte) error { return nil }

// Prepare checks the options as [JWT] does.
func (MessageBird) Prepare(s Settings) error { return JWT{}.Prepare(s) }

const (
	messagebirdHeader = "MessageBird-Signature-JWT"
	messagebirdSkew   = 5 * time.Second
	messagebirdLife   = time.Minute
)

type messagebirdClaims struct {
	Issuer    string  `json:"iss"`
	NotBefore int64   `json:"nbf"`
	Expires   int64   `json:"exp"`
	ID        string  `json:"jti"`
	URL       string  `json:"url_hash"`
	Payload   *string `json:"payload_hash,omitempty"`
}

// Verify checks the token, and that its claims match this request.
func (MessageBird) Verify(in *Input) (Result, error) {
	value, err := in.needed(messagebirdHeader, Unsigned)
	if err != nil {
		return Result{}, err
	}
	secret, payload, err := in.token(value, "header "+messagebirdHeader)
	if err != nil {
		return Result{}, err
	}
	var c messagebirdClaims
	if json.Unmarshal(payload, &c) != nil || c.NotBefore <= 0 || c.Expires <= 0 {
		return Result{}, refuse(Malformed, "the token's claims cannot be read")
	}
	switch {
	case c.Issuer != "MessageBird":
		return Result{}, refuse(Mismatch, "the token is from another issuer")
	case !same(c.URL, hexSum([]byte(in.URL))):
		return Result{}, refuse(Mismatch, "the token is about another address")
	case (c.Payload == nil) != (len(in.Body) == 0):
		return Result{}, refuse(Mismatch, "the token and the request differ in whether there is a body")
	case c.Payload != nil && !same(*c.Payload, hexSum(in.Body)):
		return Result{}, refuse(Mismatch, "the token is about another body")
	}
	begins := time.Unix(c.NotBefore, 0).UTC()
	switch {
	case in.ReceivedAt.After(time.Unix(c.Expires, 0).Add(messagebirdSkew)):
		return Result{}, refuse(Stale, "the token has expired")
	case in.ReceivedAt.Before(begins.Add(-messagebirdSkew)):
		return Result{}, refuse(Early, "the token is not valid yet")
	}
	return Result{Secret: secret, SignedAt: begins}, nil
}

func hexSum(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// Sign creates a token as MessageBird does.
func (MessageBird) Sign(in *Input, secret []byte) error {
	c := messagebirdClaims{
		Issuer: "MessageBird", NotBefore: in.ReceivedAt.Unix(), Expires: in.ReceivedAt.Add(messagebirdLife).Unix(),
		ID: hexSum(in.Body)[:32], URL: hexSum([]byte(in.URL)),
	}
	if len(in.Body) > 0 {
		payload := hexSum(in.Body)
		c.Payload = &payload
	}
	text, err := newToken(c, secret)
	if err != nil {
		return err
	}
	in.Header.Set(messagebirdHeader, text)
	return nil
}
