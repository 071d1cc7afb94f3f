package scheme

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// Sign puts a token into the body. The secret is a private key in PEM (PKCS #8), which only tests
// and operators who generated the key pair have. With keys: x5c, the certificates of the chain
// follow the key. The body is either the claims or a body that carries a token, whose claims are
// then signed again.
func (BodyToken) Sign(in *Input, secret []byte) error {
	key, chain, err := parsePrivate(secret)
	if err != nil {
		return err
	}
	algorithm, err := signingAlgorithm(key, in.Settings["algorithms"])
	if err != nil {
		return err
	}
	claims := in.Body
	if text, _, err := tokenIn(in.Settings, in.Body); err == nil && decodeToken(text) != nil {
		claims = decodeToken(text)
	}
	if claims = bytes.TrimSpace(claims); !isObject(claims) {
		return errors.New("the body is neither a JSON document of claims nor a token")
	}
	options := &jose.SignerOptions{}
	options.WithType("JWT")
	switch keySource(in.Settings) {
	case keysX5C:
		if len(chain) == 0 {
			return errors.New("the secret has no certificates after the private key; the token must contain their chain")
		}
		options.WithHeader("x5c", chain)
	case keysJWKS:
		id, err := keyID(key)
		if err != nil {
			return err
		}
		options.WithHeader("kid", id)
	}
	text, err := compact(key, algorithm, options, claims)
	if err != nil {
		return err
	}
	return putToken(in, text)
}

// putToken makes the body that carries a token.
func putToken(in *Input, token string) error {
	switch member, field := in.Settings.One("json"), in.Settings.One("form"); {
	case member != "":
		var body any = token
		names := strings.Split(member, ".")
		for _, name := range slices.Backward(names) {
			body = map[string]any{name: body}
		}
		text, err := json.Marshal(body)
		if err != nil {
			return errors.New("the body cannot be written")
		}
		in.Body = text
	case field != "":
		in.Body = []byte(url.Values{field: {token}}.Encode())
		in.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	default:
		in.Body = []byte(token)
	}
	return nil
}

// compact signs a payload as a compact JWS.
func compact(key any, algorithm jose.SignatureAlgorithm, options *jose.SignerOptions, payload []byte) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options)
	if err != nil {
		return "", errors.New("the private key cannot sign with " + string(algorithm))
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", errors.New("the token cannot be signed")
	}
	return signed.CompactSerialize() //nolint:wrapcheck // it has one signature, so it has this form
}

// detach signs a payload that the token does not contain.
func detach(in *Input, key any, payload []byte, header map[jose.HeaderKey]string) (string, error) {
	algorithm, err := signingAlgorithm(key, in.Settings["algorithms"])
	if err != nil {
		return "", err
	}
	id, err := keyID(key)
	if err != nil {
		return "", err
	}
	options := (&jose.SignerOptions{}).WithHeader("kid", id)
	for name, value := range header {
		options.WithHeader(name, value)
	}
	text, err := compact(key, algorithm, options, payload)
	if err != nil {
		return "", err
	}
	parts := strings.Split(text, ".")
	return parts[0] + ".." + parts[2], nil
}

// parsePrivate parses a private key in PKCS #8, and the certificates after it as the header x5c
// contains them.
func parsePrivate(secret []byte) (key any, chain []string, err error) {
	for {
		var block *pem.Block
		if block, secret = pem.Decode(secret); block == nil {
			break
		}
		switch block.Type {
		case "PRIVATE KEY":
			if key, err = x509.ParsePKCS8PrivateKey(block.Bytes); err != nil {
				return nil, nil, errors.New("the private key is not one of PKCS #8")
			}
		case "CERTIFICATE":
			chain = append(chain, base64.StdEncoding.EncodeToString(block.Bytes))
		}
	}
	if key == nil {
		return nil, nil, errors.New("only the provider has the key to sign with; to sign with a key of your own, use a private key in PEM (PKCS #8)")
	}
	return key, chain, nil
}

// signingAlgorithm returns the first algorithm of the source with which a private key can sign.
func signingAlgorithm(key any, allowed []string) (jose.SignatureAlgorithm, error) {
	for _, name := range allowed {
		fits := false
		switch k := key.(type) {
		case *rsa.PrivateKey:
			fits = strings.HasPrefix(name, "RS") || strings.HasPrefix(name, "PS")
		case *ecdsa.PrivateKey:
			fits = name == map[int]string{256: "ES256", 384: "ES384", 521: "ES512"}[k.Curve.Params().BitSize]
		case ed25519.PrivateKey:
			fits = name == string(jose.EdDSA)
		}
		if fits {
			return jose.SignatureAlgorithm(name), nil
		}
	}
	return "", errors.New("the private key is not one for " + strings.Join(allowed, " or "))
}

// keyID returns the id of a key: the thumbprint of its public part (RFC 7638).
func keyID(key any) (string, error) {
	sum, err := (&jose.JSONWebKey{Key: key}).Thumbprint(crypto.SHA256)
	if err != nil {
		return "", errors.New("the private key has no thumbprint")
	}
	return base64.RawURLEncoding.EncodeToString(sum), nil
}
