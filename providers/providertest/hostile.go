package providertest

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/providers"
)

// These are public keys whose private keys were discarded.
const (
	otherRSA = `-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAs13wdNGarqTJkj9a2QR9
eiOxB0rts0va4yXu5eKc58ojvLD8BrNjOCnQDsoQQeJoAN+BmYl6aVZ3poPOjsfc
IwtQJktKHmORrG8vSsBLC2cKtBhlBDtCwq2ixrVpAo6h2i/cYwDfzSydeZ8lE2Ok
pF5HbyC7N1G0ATixNnp74Vo1KXMwVuVPMrUmvnILgEv4H/hrYJ1j40WLwHeqa4dN
R7w16QUS2f1fyUjcYD2He0iPaOYKEfFIcqZYEFVariyfeus6opZjhIH9nQmE2GAC
Oul//GKNcJZUZYYoYGJo8RwQoF21x7SRZ8pkSHa05hvLAhTdX1c1tj095DMANRVl
RQIDAQAB
-----END PUBLIC KEY-----
`
	otherEd25519 = `-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAk81QaNJLRKKjevCcYOSgUyVhc2vo3Sn25IOqUXc0b2Q=
-----END PUBLIC KEY-----
`
)

// idOf returns the key id of a secret that has one.
func idOf(secret string) string {
	id, _, _ := strings.Cut(secret, "=")
	return id
}

// held reports whether verification uses the source's secrets, and neither fetched keys nor
// nothing.
func (s *suite) held() bool { return s.vector.Secret != "" && len(s.vector.Keys) == 0 }

// keyless checks that a provider accepts an absent secret if the vector has none.
func (s *suite) keyless() {
	if s.vector.Secret == "" && len(s.vector.Several) == 0 && s.v.CheckSecrets(nil) != nil {
		s.fail("secrets", "asks for a secret, and the vector verifies without")
	}
}

// data reports whether the family is defined by YAML alone.
func (s *suite) data() bool {
	switch s.way().Family {
	case "hmac", "signature", "static", "operation":
		return true
	}
	return false
}

// inHeaders reports whether the proof must be in a header.
func (s *suite) inHeaders() bool {
	from := s.way().Signature.From
	inBody := slices.ContainsFunc(s.way().Credential, func(c providers.CredentialSpec) bool { return c.Scheme == "json" })
	return s.data() && (from == "" || from == "header") && !strings.Contains(s.vector.URL, "=") && !inBody
}

// proofHeaders returns the headers that contain the signature. For a scheme, it is the first header
// that it names, or none if several headers each suffice.
func (s *suite) proofHeaders() []string {
	headers := s.way().Signature.Headers
	switch {
	case s.data():
		return headers
	case len(headers) == 0 || s.way().Family == "adobe-io":
		return nil
	}
	return headers[:1]
}

// timed reports whether the tolerance limits the signed time.
func (s *suite) timed() bool {
	v := s.way()
	if v.Family == "atlassian" {
		return false // the token expires before the tolerance is exceeded
	}
	return v.Timestamp.From != "none" && !v.Timestamp.Unsigned
}

// unsignable reports whether only the provider can create such a request.
func (s *suite) unsignable() bool {
	v := s.way()
	switch v.Signature.From {
	case "form", "query":
		return true
	}
	switch v.Family {
	case "adobe-io", "amazon-sns", "ip", "mtls", "paddle-classic", "paypal":
		return true
	case "jwt":
		return len(s.vector.Keys) > 0
	}
	return s.public() || strings.Contains(s.vector.Secret, "PUBLIC KEY") && s.vector.SignSecret == ""
}

// inBody reports whether the signature is inside the signed content, or covers the meaning of the
// body and not its bytes, so that some changes have no effect.
func (s *suite) inBody() bool {
	v := s.way()
	switch v.Signature.From {
	case "json", "form":
		return true
	}
	if s.data() {
		return !slices.ContainsFunc(v.Signed, func(p providers.Part) bool {
			return p.Word == "body" || p.Word == "body-base64" || p.Word == "body-sha256"
		})
	}
	return v.Family != "jwt" && v.Family != "rfc9421" && v.Family != "adobe-io"
}

// values changes the value of the proof's header: its encoding, its length, and bytes that no
// header should contain.
func (s *suite) values() {
	proof, _ := s.carriers()
	if s.several() {
		return
	}
	spec := &s.way().Signature
	for _, name := range proof {
		value := s.vector.Request().Header.Get(name)
		try := func(check, changed string) {
			if changed == value {
				return
			}
			req := s.vector.Request()
			req.Header.Set(name, changed)
			s.refused(check, req, s.vector.Secrets())
		}
		for _, garbage := range []string{"\x00", value + "\x00", "\x00" + value, value + "\xff\xfe", "\xc3\x28", strings.Repeat(value+",", 1000)} {
			if spec.Format == "value" || garbage == "\x00" || garbage == "\xc3\x28" {
				try("garbage", garbage)
			}
		}
		if spec.Format == "list" && s.alone(value) {
			for i := range len(value) {
				for _, other := range []byte("0z\x00") {
					try("altered", value[:i]+string(other)+value[i+1:])
				}
			}
		}
		if spec.Format != "value" || !s.data() || len(spec.Schemes) == 0 {
			continue
		}
		text := strings.TrimPrefix(value, spec.Prefix)
		prefix := value[:len(value)-len(text)]
		try("extended", value+"00")
		try("extended", value+text)
		try("extended", prefix+"00"+text)
		for i := range len(text) {
			for _, other := range []byte("019zZ-\x00") {
				changed := []byte(text)
				changed[i] = other
				if !strings.EqualFold(text, string(changed)) || spec.Schemes[0].Encoding != "hex" { // hex is read in either case
					try("altered", prefix+string(changed))
				}
			}
			if strings.HasSuffix(spec.Schemes[0].Encoding, "-lenient") && text[:i] == strings.TrimRight(text, "=") {
				continue // the padding is optional
			}
			try("truncated", prefix+text[:i])
		}
		if sum, err := hex.DecodeString(text); err == nil {
			try("encoding", prefix+base64.StdEncoding.EncodeToString(sum))
			try("encoding", prefix+base64.RawURLEncoding.EncodeToString(sum))
		} else if sum, err := base64.StdEncoding.DecodeString(text); err == nil {
			try("encoding", prefix+hex.EncodeToString(sum))
		}
	}
}

// alone reports whether a list contains only one signature and, if it has one, the time.
func (s *suite) alone(value string) bool {
	spec := &s.way().Signature
	items := 1
	if spec.Separator != "" {
		items += strings.Count(value, spec.Separator)
	}
	if spec.TimestampLabel != "" {
		items--
	}
	return items == 1
}

// body flips the bits of a body, up to a limit. If the signature covers the body, the verifier must
// refuse every change. If the signature is inside the body, an accepted change must result in the
// same event.
func (s *suite) body(d *providers.Delivery) {
	if s.way().Authenticates == "origin" || len(s.vector.Settings["components"]) > 0 {
		return
	}
	bits, flips := len(s.vector.Body)*8, maxFlips
	if !s.data() || strings.Contains(s.vector.Secret, "PUBLIC KEY") {
		flips /= 4 // verification with public keys is slow; every byte is flipped anyway
	}
	if len(s.vector.Body) > 8<<10 {
		flips = min(flips, 512) // each flip hashes a large body completely
	}
	for bit := 0; bit < bits; bit += max(1, bits/flips) {
		flipped := s.vector.Request()
		flipped.Body[bit/8] ^= 1 << (bit % 8)
		if s.inBody() {
			s.sameOrRefused("flipped", flipped, d)
			continue
		}
		s.changed("flipped", flipped)
	}
	if !s.inBody() {
		for i := range min(len(s.vector.Body), maxFlips/8) {
			cut := s.vector.Request()
			cut.Body = append(cut.Body[:i:i], s.vector.Body[i+1:]...)
			s.changed("cut", cut)
			grown := s.vector.Request()
			grown.Body = []byte(s.vector.Body[:i] + "\x00" + s.vector.Body[i:])
			s.changed("grown", grown)
		}
	}
	for name, body := range map[string]string{
		"truncated": s.vector.Body[:max(0, len(s.vector.Body)-1)],
		"emptied":   "",
		"extended":  s.vector.Body + " ",
		"newline":   s.vector.Body + "\n",
		"nul":       s.vector.Body + "\x00",
		"doubled":   s.vector.Body + s.vector.Body,
	} {
		if body == s.vector.Body {
			continue
		}
		changed := s.vector.Request()
		changed.Body = []byte(body)
		if s.inBody() {
			s.sameOrRefused(name, changed, d)
			continue
		}
		s.changed(name, changed)
	}
}

// sameOrRefused requires a refusal or the same event.
func (s *suite) sameOrRefused(check string, req *providers.Request, want *providers.Delivery) {
	s.hostile++
	got, err := s.verify(check, req, s.vector.Secrets())
	if err != nil {
		return
	}
	used := slices.ContainsFunc(got.Items, func(item providers.Item) bool { return item.Unusable == "" })
	if len(got.Items) != len(want.Items) {
		if !used {
			return // recorded as unusable
		}
		s.fail(check, "accepted with other events")
		return
	}
	for i := range got.Items {
		a, b := got.Items[i], want.Items[i]
		if a.Unusable != "" {
			continue // recorded as unusable, with a different key
		}
		if a.EventID != b.EventID || s.way().Authenticates == "body" && (a.Type != b.Type || !a.OccurredAt.Equal(b.OccurredAt)) {
			s.fail(check, "accepted with another id, type or time")
			return
		}
	}
}

// OnlyTheirs reports whether signing failed because only the provider has the required key.
func OnlyTheirs(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "only the provider") || strings.Contains(err.Error(), "a public key cannot sign"))
}
