package scheme

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MessageSignatures verifies HTTP Message Signatures (RFC 9421) with a Content-Digest (RFC 9530).
// It is written in Go because each request chooses the list of signed components, which must be
// parsed and checked.
//
// A valid signature may cover nothing of importance. A source therefore requires components:
// content-digest, @method and @authority by default ("none" requires nothing, and then the body is
// not authentic). A secret is written keyid:algorithm=key, with the key in base64 for hmac-sha256
// and in PEM for the others.
type MessageSignatures struct{}

type messageKey struct {
	id, algorithm string
	secret        []byte
	public        crypto.PublicKey
}

func parseMessageKey(text []byte) (messageKey, error) {
	label, material, ok := strings.Cut(string(text), "=")
	i := strings.LastIndexByte(label, ':')
	if !ok || i <= 0 {
		return messageKey{}, errors.New("is not written keyid:algorithm=key")
	}
	key := messageKey{id: label[:i], algorithm: label[i+1:]}
	if key.algorithm == "hmac-sha256" {
		var err error
		if key.secret, err = base64.StdEncoding.DecodeString(material); err != nil || len(key.secret) < 16 {
			return messageKey{}, errors.New("is not a key of at least 16 bytes in base64")
		}
		return key, nil
	}
	block, rest := pem.Decode([]byte(strings.ReplaceAll(material, `\n`, "\n")))
	if block == nil || strings.TrimSpace(string(rest)) != "" {
		return messageKey{}, errors.New("is not a public key in PEM")
	}
	var err error
	if key.public, err = x509.ParsePKIXPublicKey(block.Bytes); err != nil {
		// An RSASSA-PSS key may have an algorithm identifier that the standard library does not
		// parse. The key inside is an ordinary RSA key.
		if key.public, err = parsePSS(block.Bytes); err != nil {
			return messageKey{}, errors.New("is not a public key")
		}
	}
	fits := false
	switch public := key.public.(type) {
	case ed25519.PublicKey:
		fits = key.algorithm == "ed25519"
	case *rsa.PublicKey:
		fits = (key.algorithm == "rsa-pss-sha512" || key.algorithm == "rsa-v1_5-sha256") && public.Size() >= 256
	case *ecdsa.PublicKey:
		fits = key.algorithm == "ecdsa-p256-sha256" && public.Curve == elliptic.P256()
	}
	if !fits {
		return messageKey{}, errors.New("is not a key for the algorithm it names (hmac-sha256, ed25519, ecdsa-p256-sha256, rsa-pss-sha512, rsa-v1_5-sha256)")
	}
	return key, nil
}

// Check parses the secret.
func (MessageSignatures) Check(secret []byte) error {
	_, err := parseMessageKey(secret)
	return err
}

// Prepare checks the required components.
func (MessageSignatures) Prepare(s Settings) error {
	for _, name := range s["components"] {
		if name != strings.ToLower(name) {
			return errors.New("setting components: names are in lower case")
		}
	}
	return nil
}

// Verify requires one signature by a configured key over all required components.
func (MessageSignatures) Verify(in *Input) (Result, error) {
	input, err := in.joined("Signature-Input")
	if err != nil {
		return Result{}, err
	}
	sums, err := in.joined("Signature")
	if err != nil {
		return Result{}, err
	}
	if input == "" || sums == "" {
		return Result{}, refuse(Unsigned, "header Signature or Signature-Input is missing")
	}
	inputs, err := parseInputs(input)
	if err != nil {
		return Result{}, refuse(Malformed, "header Signature-Input: "+err.Error())
	}
	signatures, err := parseBytes(sums)
	if err != nil {
		return Result{}, refuse(Malformed, "header Signature: "+err.Error())
	}
	required := in.Settings["components"]
	var last error = refuse(Mismatch, "no signature is by a live secret")
	for i := range inputs {
		s := &inputs[i]
		sum, ok := signatures[s.label]
		if !ok {
			continue
		}
		name, err := in.message(s, sum)
		if err != nil {
			last = err
			continue
		}
		if missing := lacking(s.whole(), required); missing != "" {
			last = refuse(Mismatch, "the signature does not cover "+missing)
			continue
		}
		if s.created.IsZero() {
			last = refuse(Malformed, "the signature has no time of creation")
			continue
		}
		if !s.expires.IsZero() && in.ReceivedAt.After(s.expires) {
			last = refuse(Stale, "the signature has expired")
			continue
		}
		if err := in.fresh(s.created); err != nil {
			last = err
			continue
		}
		if slices.Contains(s.whole(), "content-digest") {
			if err := in.digest(); err != nil {
				last = err
				continue
			}
		}
		return Result{Secret: name, SignedAt: s.created}, nil
	}
	return Result{}, last
}

func lacking(have, want []string) string {
	for _, name := range want {
		if name != "none" && !slices.Contains(have, name) {
			return name
		}
	}
	return ""
}

// message checks one signature and returns the name of its secret. The secret determines the
// algorithm; an algorithm in the request must be the same.
func (in *Input) message(s *signatureInput, sum []byte) (string, error) {
	base, err := in.base(s)
	if err != nil {
		return "", err
	}
	name, found := "", false
	for _, secret := range in.Secrets {
		key, err := parseMessageKey(secret.Value)
		if err != nil || key.id != s.keyID || s.algorithm != "" && s.algorithm != key.algorithm {
			continue
		}
		if key.verify([]byte(base), sum) && !found {
			name, found = secret.Name, true
		}
	}
	if !found {
		return "", refuse(Mismatch, "no live secret matches signature "+s.label)
	}
	return name, nil
}

func (k *messageKey) verify(message, sum []byte) bool {
	switch k.algorithm {
	case "hmac-sha256":
		mac := hmac.New(sha256.New, k.secret)
		mac.Write(message)
		return hmac.Equal(mac.Sum(nil), sum)
	case "ed25519":
		key, ok := k.public.(ed25519.PublicKey)
		return ok && ed25519.Verify(key, message, sum)
	case "rsa-pss-sha512":
		key, ok := k.public.(*rsa.PublicKey)
		digest := sha512.Sum512(message)
		return ok && rsa.VerifyPSS(key, crypto.SHA512, digest[:], sum, &rsa.PSSOptions{SaltLength: 64}) == nil
	case "rsa-v1_5-sha256":
		key, ok := k.public.(*rsa.PublicKey)
		digest := sha256.Sum256(message)
		return ok && rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], sum) == nil
	case "ecdsa-p256-sha256":
		key, ok := k.public.(*ecdsa.PublicKey)
		digest := sha256.Sum256(message)
		return ok && len(sum) == 64 && ecdsa.Verify(key, digest[:], new(big.Int).SetBytes(sum[:32]), new(big.Int).SetBytes(sum[32:]))
	}
	return false
}

// base returns the signature base (RFC 9421, 2.5).
func (in *Input) base(s *signatureInput) (string, error) {
	var b strings.Builder
	for i := range s.covered {
		value, err := in.component(&s.covered[i])
		if err != nil {
			return "", err
		}
		b.WriteString(s.covered[i].identifier + ": " + value + "\n")
	}
	b.WriteString(`"@signature-params": ` + s.raw)
	return b.String(), nil
}

func (in *Input) component(c *component) (string, error) {
	name := c.name
	if !strings.HasPrefix(name, "@") {
		values := in.Header.Values(name)
		if len(values) == 0 && name == "content-length" {
			return strconv.Itoa(len(in.Body)), nil // the server removes Content-Length from the headers
		}
		if len(values) == 0 {
			return "", refuse(Malformed, "the signature covers a header that is missing")
		}
		trimmed := make([]string, len(values))
		for i, value := range values {
			trimmed[i] = strings.TrimSpace(value)
			if c.wrapped {
				trimmed[i] = ":" + base64.StdEncoding.EncodeToString([]byte(trimmed[i])) + ":"
			}
		}
		return strings.Join(trimmed, ", "), nil
	}
	u, err := url.Parse(in.URL)
	if err != nil {
		return "", refuse(Malformed, "the address cannot be read")
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	switch name {
	case "@method":
		return in.Method, nil
	case "@target-uri":
		return in.URL, nil
	case "@authority":
		host := strings.ToLower(u.Host)
		if u.Scheme == "https" {
			host = strings.TrimSuffix(host, ":443")
		} else {
			host = strings.TrimSuffix(host, ":80")
		}
		return host, nil
	case "@scheme":
		return strings.ToLower(u.Scheme), nil
	case "@path":
		return path, nil
	case "@query-param":
		return queryParam(u, c.parameter)
	case "@query":
		return "?" + u.RawQuery, nil
	case "@request-target":
		if u.RawQuery != "" || u.ForceQuery {
			path += "?" + u.RawQuery
		}
		return path, nil
	}
	return "", refuse(Malformed, "the signature covers a component that is not understood")
}

// Sign signs the required components with a shared secret.
func (MessageSignatures) Sign(in *Input, secret []byte) error {
	key, err := parseMessageKey(secret)
	if err != nil {
		return errors.New("the secret " + err.Error())
	}
	if key.secret == nil {
		return errors.New("a public key cannot sign")
	}
	sum := sha256.Sum256(in.Body)
	in.Header.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
	s := signatureInput{label: "sig1", keyID: key.id}
	var quoted []string
	for _, name := range in.Settings["components"] {
		if name != "none" {
			quoted = append(quoted, strconv.Quote(name))
			s.covered = append(s.covered, component{identifier: strconv.Quote(name), name: name})
		}
	}
	s.raw = "(" + strings.Join(quoted, " ") + ");created=" + strconv.FormatInt(in.ReceivedAt.Unix(), 10) + `;keyid="` + key.id + `"`
	base, err := in.base(&s)
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, key.secret)
	mac.Write([]byte(base))
	in.Header.Set("Signature-Input", "sig1="+s.raw)
	in.Header.Set("Signature", "sig1=:"+base64.StdEncoding.EncodeToString(mac.Sum(nil))+":")
	return nil
}

// signatureInput is one member of Signature-Input.
type signatureInput struct {
	label            string
	raw              string // as the request writes it, which is the signed text
	covered          []component
	keyID, algorithm string
	created, expires time.Time
}
