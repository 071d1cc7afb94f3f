package scheme

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Atlassian verifies the token of Connect apps. It is written in Go because the token signs a
// canonical form of method, path and query, and nothing of the body.
//
// Options: algorithms, and issuer (the client keys of the accepted installations; all are accepted
// if it is absent). The setting base is the path of the app's base address, which is not part of
// the signed path.
type Atlassian struct{}

// Check accepts any secret, the shared secret of an installation.
func (Atlassian) Check([]byte) error { return nil }

// Prepare checks the options as [JWT] does.
func (Atlassian) Prepare(s Settings) error { return JWT{}.Prepare(s) }

const atlassianHeader = "Authorization"

type atlassianClaims struct {
	Issuer   string `json:"iss"`
	IssuedAt int64  `json:"iat"`
	Expires  int64  `json:"exp"`
	Query    string `json:"qsh"`
}

// Verify checks the token, and that the token is for this address.
func (Atlassian) Verify(in *Input) (Result, error) {
	value, err := in.needed(atlassianHeader, Unsigned)
	if err != nil {
		return Result{}, err
	}
	word, text, ok := strings.Cut(value, " ")
	if !ok || !strings.EqualFold(word, "JWT") {
		return Result{}, refuse(Malformed, "header Authorization has no JWT token")
	}
	secret, payload, err := in.token(strings.Trim(text, " "), "header Authorization")
	if err != nil {
		return Result{}, err
	}
	var c atlassianClaims
	if json.Unmarshal(payload, &c) != nil || c.IssuedAt <= 0 || c.Expires <= 0 {
		return Result{}, refuse(Malformed, "the token's claims cannot be read")
	}
	if issuers := in.Settings["issuer"]; len(issuers) > 0 && !slices.Contains(issuers, c.Issuer) {
		return Result{}, refuse(Mismatch, "the token is from another installation")
	}
	if !same(c.Query, atlassianQuery(in)) {
		return Result{}, refuse(Mismatch, "the token is for another address")
	}
	at := time.Unix(c.IssuedAt, 0).UTC()
	if in.ReceivedAt.After(time.Unix(c.Expires, 0)) {
		return Result{}, refuse(Stale, "the token has expired")
	}
	return Result{Secret: secret, SignedAt: at}, in.fresh(at)
}

// atlassianQuery returns the digest of method, path and sorted query.
func atlassianQuery(in *Input) string {
	u, err := url.Parse(in.URL)
	if err != nil {
		return ""
	}
	path := strings.TrimPrefix(u.EscapedPath(), strings.TrimSuffix(in.Settings.One("base"), "/"))
	path = strings.ReplaceAll(strings.TrimSuffix(path, "/"), "&", "%26")
	if path == "" {
		path = "/"
	}
	query := u.Query()
	var pairs []string
	for name, values := range query {
		if name == "jwt" {
			continue
		}
		encoded := make([]string, len(values))
		for i, value := range values {
			encoded[i] = percent(value)
		}
		slices.Sort(encoded)
		pairs = append(pairs, percent(name)+"="+strings.Join(encoded, ","))
	}
	slices.Sort(pairs)
	return hexSum([]byte(strings.ToUpper(in.Method) + "&" + path + "&" + strings.Join(pairs, "&")))
}

// percent encodes a text as RFC 3986 requires.
func percent(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}

// Sign creates a token as Connect does.
func (Atlassian) Sign(in *Input, secret []byte) error {
	issuer := in.Settings.One("issuer")
	if issuer == "" {
		issuer = "client-key"
	}
	text, err := newToken(atlassianClaims{
		Issuer: issuer, IssuedAt: in.ReceivedAt.Unix(), Expires: in.ReceivedAt.Add(3 * time.Minute).Unix(), Query: atlassianQuery(in),
	}, secret)
	if err != nil {
		return err
	}
	in.Header.Set(atlassianHeader, "JWT "+text)
	return nil
}

// newToken returns a JWT with the claims, signed with a shared secret.
func newToken(claims any, secret []byte) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", errors.New("the claims cannot be written")
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode(payload)
	return text + "." + encode(tokenMAC("HS256", secret, text)), nil
}
