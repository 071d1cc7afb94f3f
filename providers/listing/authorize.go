package listing

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// tokenLife is how long a token that Oncegate signs is valid. Apple accepts up to an hour, and its own
// library uses five minutes.
const tokenLife = 5 * time.Minute

// authorize adds the credential to a request.
func (c *Client) authorize(ctx context.Context, req *http.Request) *Error {
	token := string(c.cfg.Credential)
	switch c.cfg.Listing.Spec().Auth.Kind {
	case "basic":
		user, password, _ := strings.Cut(token, ":")
		req.SetBasicAuth(user, password)
		return nil
	case "oauth":
		issued, failed := c.issued(ctx)
		if failed != nil {
			return failed
		}
		token = issued
	case "jwt":
		signed, err := c.signed()
		if err != nil {
			return &Error{text: "the token for " + c.cfg.Listing.Host() + " cannot be signed"}
		}
		token = signed
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return nil
}

// issued returns the token that the sender issued for the credential, and asks for another one before
// it expires.
func (c *Client) issued(ctx context.Context) (string, *Error) {
	if c.token.Valid() {
		return c.token.AccessToken, nil
	}
	id, secret, _ := strings.Cut(string(c.cfg.Credential), ":")
	asked := clientcredentials.Config{ClientID: id, ClientSecret: secret, TokenURL: c.cfg.Listing.TokenURL(), AuthStyle: oauth2.AuthStyleInHeader}
	token, err := asked.Token(context.WithValue(ctx, oauth2.HTTPClient, c.http))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		// The text of the library contains the answer, which may contain anything.
		if failed := c.refused(refused.Response); failed != nil {
			return "", failed
		}
		return "", &Error{Status: http.StatusOK, text: c.cfg.Listing.Host() + ": its answer to the request for a token has none"}
	}
	if err != nil {
		return "", c.unanswered(err)
	}
	c.token = token
	return token.AccessToken, nil
}

// signed returns a new token.
func (c *Client) signed() (string, error) {
	keyID, given := c.cfg.Listing.TokenClaims()
	now := c.cfg.Now()
	claims := map[string]any{"iat": now.Unix(), "exp": now.Add(tokenLife).Unix()}
	maps.Copy(claims, given)
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err //nolint:wrapcheck // the caller says what failed
	}
	options := (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", keyID)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: c.key}, options)
	if err != nil {
		return "", err //nolint:wrapcheck // likewise
	}
	token, err := signer.Sign(payload)
	if err != nil {
		return "", err //nolint:wrapcheck // likewise
	}
	return token.CompactSerialize() //nolint:wrapcheck // likewise
}
