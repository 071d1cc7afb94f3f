package providers

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // some providers sign with HMAC-SHA1
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"net/http"
	"strings"
	"time"
)

// Bounds of the work an unauthenticated request can cause.
const (
	// MaxSecrets is how many secrets of a source are tried.
	MaxSecrets = 8
	// maxSignatures is how many signatures of a request are tried.
	maxSignatures = 8
	// maxHeader is the longest signature header that is read, in bytes.
	maxHeader = 8 << 10
)

func refuse(reason Reason, detail string) *Refusal { return &Refusal{Reason: reason, Detail: detail} }

// header returns the one value of the first of the names that is present.
func header(req *Request, names []string) (value, name string, err *Refusal) {
	for _, n := range names {
		values := req.Header[http.CanonicalHeaderKey(n)]
		switch {
		case len(values) > 1:
			return "", n, refuse(ReasonMalformed, "header "+n+" is present "+count(len(values)))
		case len(values) == 1 && values[0] != "":
			if len(values[0]) > maxHeader {
				return "", n, refuse(ReasonMalformed, "header "+n+" is too long")
			}
			return values[0], n, nil
		}
	}
	return "", "", nil
}

func count(n int) string {
	if n == 2 {
		return "twice"
	}
	return "several times"
}

// signature is one signature of a request, decoded.
type signature struct {
	scheme int
	sum    []byte
}

// signed is what the signature header says.
type signed struct {
	header     string
	signatures []signature
	timestamp  string
}

// signatures reads the signature header.
func (p *Provider) signatures(req *Request) (signed, *Refusal) {
	spec := &p.spec.Verify.Signature
	value, name, err := header(req, spec.Headers)
	if err != nil {
		return signed{}, err
	}
	if name == "" {
		return signed{}, refuse(ReasonUnsigned, "header "+strings.Join(spec.Headers, " or ")+" is missing")
	}
	out := signed{header: name}
	if spec.Format == "list" {
		err = p.listed(&out, value)
	} else {
		err = p.single(&out, value)
	}
	if err != nil {
		return signed{}, err
	}
	return out, nil
}

func (p *Provider) single(out *signed, value string) *Refusal {
	spec := &p.spec.Verify.Signature
	rest, ok := strings.CutPrefix(value, spec.Prefix)
	if !ok {
		return refuse(ReasonMalformed, "header "+out.header+" does not start with "+spec.Prefix)
	}
	scheme := &p.schemes[0]
	sum, ok := scheme.decode(rest)
	if !ok {
		return refuse(ReasonMalformed, "header "+out.header+" is not a signature in "+scheme.Encoding)
	}
	out.signatures = append(out.signatures, signature{0, sum})
	return nil
}

// listed reads a list of labelled items. Items that are not understood are
// passed over, as the providers' own libraries do: they may announce a scheme of
// the future.
func (p *Provider) listed(out *signed, value string) *Refusal {
	spec := &p.spec.Verify.Signature
	known := false
	for value != "" {
		item := value
		if spec.Separator == "" {
			value = ""
		} else {
			item, value, _ = strings.Cut(value, spec.Separator)
		}
		label, rest, ok := strings.Cut(strings.Trim(item, " "), spec.Assign)
		if !ok {
			continue
		}
		if spec.TimestampLabel != "" && label == spec.TimestampLabel {
			if out.timestamp != "" {
				return refuse(ReasonMalformed, "header "+out.header+" has two timestamps")
			}
			out.timestamp = rest
			continue
		}
		for i := range p.schemes {
			if p.schemes[i].Label != label {
				continue
			}
			known = true
			sum, ok := p.schemes[i].decode(rest)
			if !ok {
				continue
			}
			if len(out.signatures) == maxSignatures {
				return refuse(ReasonMalformed, "header "+out.header+" has more than 8 signatures")
			}
			out.signatures = append(out.signatures, signature{i, sum})
		}
	}
	switch {
	case !known:
		return refuse(ReasonMalformed, "header "+out.header+" has no "+p.labels()+" entry")
	case len(out.signatures) == 0:
		return refuse(ReasonMalformed, "header "+out.header+" has no readable "+p.labels()+" entry")
	}
	return nil
}

func (p *Provider) labels() string {
	var out []string
	for i := range p.schemes {
		out = append(out, p.schemes[i].Label)
	}
	return strings.Join(out, " or ")
}

// time reads the signed time. raw is how it is written, which is what is signed.
func (p *Provider) time(req *Request, sig *signed) (raw string, at time.Time, err *Refusal) {
	spec := &p.spec.Verify.Timestamp
	var where string
	switch spec.From {
	case "header":
		value, name, err := header(req, spec.Header)
		if err != nil {
			return "", time.Time{}, err
		}
		if name == "" {
			return "", time.Time{}, refuse(ReasonMalformed, "header "+strings.Join(spec.Header, " or ")+" is missing")
		}
		raw, where = value, "header "+name
	case "signature":
		raw, where = sig.timestamp, "header "+sig.header
		if raw == "" {
			return "", time.Time{}, refuse(ReasonMalformed, where+" has no timestamp")
		}
	default:
		return "", time.Time{}, nil
	}
	at, ok := instant(raw, spec.Unit)
	if !ok {
		return "", time.Time{}, refuse(ReasonMalformed, where+" has no timestamp in "+unitName(spec.Unit))
	}
	return raw, at, nil
}

func unitName(unit string) string {
	switch unit {
	case "ms":
		return "milliseconds"
	case "rfc3339":
		return "RFC 3339"
	}
	return "seconds"
}

// fresh compares the signed time with the receipt, on both sides. It is asked
// only about authentic times, so that stale and early mean just that.
func (p *Provider) fresh(at, received time.Time) *Refusal {
	if at.IsZero() || p.spec.Verify.Timestamp.Unsigned {
		return nil
	}
	spec := &p.spec.Verify.Timestamp
	age := received.Sub(at)
	switch {
	case spec.Past != Off && age > time.Duration(spec.Past):
		return refuse(ReasonStale, "signed "+age.Truncate(time.Second).String()+" before it was received")
	case spec.Future != Off && -age > time.Duration(spec.Future):
		return refuse(ReasonEarly, "signed "+(-age).Truncate(time.Second).String()+" after it was received")
	}
	return nil
}

// message gives the signed bytes to write, part by part, so that no copy of the
// body is made.
func (p *Provider) message(req *Request, timestamp string, write func([]byte)) *Refusal {
	for i := range p.spec.Verify.Signed {
		part := &p.spec.Verify.Signed[i]
		switch {
		case part.Word == "body":
			write(req.Body)
		case part.Word == "timestamp":
			write([]byte(timestamp))
		case part.Word == "method":
			write([]byte(req.Method))
		case part.Word == "url":
			write([]byte(req.URL))
		case part.Literal != "":
			write([]byte(part.Literal))
		case len(part.Header) > 0:
			value, name, err := header(req, part.Header)
			if err != nil {
				return err
			}
			if name == "" {
				return refuse(ReasonMalformed, "header "+strings.Join(part.Header, " or ")+" is missing")
			}
			write([]byte(value))
		}
	}
	return nil
}

func (p *Provider) verifySignature(req *Request, secrets []Secret) (secret string, at time.Time, err *Refusal) {
	sig, err := p.signatures(req)
	if err != nil {
		return "", time.Time{}, err
	}
	timestamp, at, err := p.time(req, &sig)
	if err != nil {
		return "", time.Time{}, err
	}
	// Read once for its errors, so that a missing part is malformed for everyone.
	var public []byte // the message in one piece, for schemes that need it so
	if err := p.message(req, timestamp, func([]byte) {}); err != nil {
		return "", time.Time{}, err
	}

	matched := ""
	found := false
	for _, secret := range live(secrets, req.ReceivedAt) {
		for i := range p.schemes {
			scheme := &p.schemes[i]
			if !offered(sig.signatures, i) {
				continue
			}
			key, kerr := scheme.key(secret.Value, p.schemes)
			if kerr != nil {
				continue
			}
			var want []byte
			if scheme.new != nil {
				mac := hmac.New(scheme.new, key)
				_ = p.message(req, timestamp, func(b []byte) { mac.Write(b) })
				want = mac.Sum(nil)
			} else if public == nil {
				_ = p.message(req, timestamp, func(b []byte) { public = append(public, b...) })
			}
			for _, s := range sig.signatures {
				if s.scheme != i {
					continue
				}
				var ok bool
				if scheme.new != nil {
					ok = subtle.ConstantTimeCompare(want, s.sum) == 1
				} else {
					ok = len(key) == ed25519.PublicKeySize && ed25519.Verify(ed25519.PublicKey(key), public, s.sum)
				}
				if ok && !found {
					matched, found = secret.Name, true
				}
			}
		}
	}
	if !found {
		return "", time.Time{}, refuse(ReasonMismatch, "no live secret matches header "+sig.header)
	}
	if err := p.fresh(at, req.ReceivedAt); err != nil {
		return "", time.Time{}, err
	}
	return matched, at, nil
}

func offered(signatures []signature, scheme int) bool {
	for _, s := range signatures {
		if s.scheme == scheme {
			return true
		}
	}
	return false
}

// live leaves out the secrets that are over, and those beyond the bound.
func live(secrets []Secret, now time.Time) []Secret {
	expired := 0
	for i := range secrets {
		if over(&secrets[i], now) {
			expired++
		}
	}
	if expired > 0 {
		out := make([]Secret, 0, len(secrets)-expired)
		for i := range secrets {
			if !over(&secrets[i], now) {
				out = append(out, secrets[i])
			}
		}
		secrets = out
	}
	return secrets[:min(len(secrets), MaxSecrets)]
}

func over(s *Secret, now time.Time) bool {
	return len(s.Value) == 0 || !s.NotAfter.IsZero() && now.After(s.NotAfter)
}

// scheme is a SchemeSpec made ready for use.
type scheme struct {
	SchemeSpec
	new  func() hash.Hash // nil for public-key schemes
	size int              // of a signature, in bytes
}

// algorithms are what the families here can compute.
func algorithm(name string) (newHash func() hash.Hash, size int, ok bool) {
	switch name {
	case "hmac-sha1":
		return sha1.New, sha1.Size, true
	case "hmac-sha256":
		return sha256.New, sha256.Size, true
	case "hmac-sha384":
		return sha512.New384, sha512.Size384, true
	case "hmac-sha512":
		return sha512.New, sha512.Size, true
	case "ed25519":
		return nil, ed25519.SignatureSize, true
	}
	return nil, 0, false
}

// decode gives the bytes of a signature of the right size.
func (s *scheme) decode(text string) ([]byte, bool) {
	if len(text) > 2*s.size+2 {
		return nil, false
	}
	var sum []byte
	var err error
	switch s.Encoding {
	case "hex":
		sum, err = hex.DecodeString(text)
	case "base64":
		sum, err = base64.StdEncoding.Strict().DecodeString(text)
	case "base64-lenient":
		sum, err = base64.RawStdEncoding.Strict().DecodeString(strings.TrimRight(text, "="))
	case "base64url":
		sum, err = base64.RawURLEncoding.Strict().DecodeString(text)
	default:
		return nil, false
	}
	// The base64 decoders skip line breaks, which would be a second spelling.
	return sum, err == nil && len(sum) == s.size && !strings.ContainsAny(text, "\r\n")
}

func (s *scheme) encode(sum []byte) string {
	switch s.Encoding {
	case "hex":
		return hex.EncodeToString(sum)
	case "base64url":
		return base64.RawURLEncoding.EncodeToString(sum)
	}
	return base64.StdEncoding.EncodeToString(sum)
}

var (
	errEmptySecret = errors.New("is empty")
	errOtherScheme = errors.New("belongs to another scheme")
)

// key decodes a secret. A secret that carries the required prefix of one scheme
// is a key of that scheme alone: a public key must never serve as an HMAC key.
func (s *scheme) key(secret []byte, all []scheme) ([]byte, error) {
	text := string(secret)
	for i := range all {
		o := &all[i]
		foreign := o.Label != s.Label && o.KeyPrefixRequired && strings.HasPrefix(text, o.KeyPrefix)
		private := o.PrivatePrefix != "" && strings.HasPrefix(text, o.PrivatePrefix)
		if foreign || private {
			return nil, errOtherScheme
		}
	}
	rest, found := strings.CutPrefix(text, s.KeyPrefix)
	if s.KeyPrefixRequired && !found {
		return nil, errors.New("does not start with " + s.KeyPrefix)
	}
	key, err := decodeKey(s.Key, rest)
	if err != nil {
		return nil, err
	}
	if s.new == nil && len(key) != ed25519.PublicKeySize {
		return nil, errors.New("is not a public key of 32 bytes")
	}
	return key, nil
}

func decodeKey(how, text string) ([]byte, error) {
	var key []byte
	var err error
	switch how {
	case "", "text":
		key = []byte(text)
	case "hex":
		key, err = hex.DecodeString(text)
	case "base64":
		key, err = base64.StdEncoding.Strict().DecodeString(text)
	case "base64-lenient":
		key, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	}
	if err != nil {
		return nil, errors.New("is not " + strings.TrimSuffix(how, "-lenient"))
	}
	if len(key) == 0 {
		return nil, errEmptySecret
	}
	return key, nil
}
