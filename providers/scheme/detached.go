package scheme

import (
	"errors"

	"github.com/go-jose/go-jose/v4"
)

// Detached verifies a token in a header whose payload is the body (RFC 7515, appendix F). It is
// written in Go for the same reason as [JWT]. Unlike there, the token has no claims.
//
// Options: algorithms, keys_url and hosts as in [JWT].
type Detached struct{}

// Check returns an error for every secret, because the keys are published.
func (Detached) Check([]byte) error {
	return errors.New("is not used: the sender signs with a published key")
}

// Secretless returns true.
func (Detached) Secretless(Settings) bool { return true }

// Prepare checks the options as [JWT] does.
func (Detached) Prepare(s Settings) error { return JWT{}.Prepare(s) }

// Verify checks the token against the body.
func (Detached) Verify(in *Input) (Result, error) {
	if len(in.Headers) == 0 {
		return Result{}, errors.New("verifying a token: no header is named")
	}
	text, err := in.needed(in.Headers[0], Unsigned)
	if err != nil {
		return Result{}, err
	}
	where := "header " + in.Headers[0]
	payload := in.Body
	if payload == nil {
		payload = []byte{} // the library takes nil for a mistake
	}
	parsed, err := jose.ParseDetached(text, payload, in.algorithms(func(name string) bool { return !symmetric[name] }))
	if err != nil {
		return Result{}, refuse(Malformed, where+" has no detached token in an algorithm of the source")
	}
	key, _, err := in.published(parsed, where)
	return Result{Secret: key}, err
}

// Sign sets the token. The secret is a private key in PEM (PKCS #8).
func (Detached) Sign(in *Input, secret []byte) error {
	key, _, err := parsePrivate(secret)
	if err != nil {
		return err
	}
	text, err := detach(in, key, in.Body, nil)
	if err != nil {
		return err
	}
	in.Header.Set(in.Headers[0], text)
	return nil
}
