package providers

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"io"
	"strconv"
	"strings"
	"time"
)

// These constants limit the work that an unauthenticated request can cause.
const (
	// MaxSecrets is how many secrets of a source are tried, and how many secrets one credential of
	// a source of operations may have.
	MaxSecrets = 8
	// MaxCredentialSecrets is how many secrets of a source of operations are tried, over all its
	// credentials. Each of them costs one digest for each request.
	MaxCredentialSecrets = 256
	// maxSignatures is how many signatures of a request are tried.
	maxSignatures = 8
	// maxHeader is the longest signature header that is read, in bytes.
	maxHeader = 8 << 10
)

func refuse(reason Reason, detail string) *Refusal { return &Refusal{Reason: reason, Detail: detail} }

// time reads the signed time. raw is the time as written in the request, which is the signed text.
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
	case "json":
		value, ok := sig.at.json(spec.Path)
		if !ok {
			return "", time.Time{}, refuse(ReasonMalformed, "JSON "+spec.Path+" is missing")
		}
		raw, where = value, "JSON "+spec.Path
	case "form":
		value, ok := sig.at.formField(spec.Path)
		if !ok {
			return "", time.Time{}, refuse(ReasonMalformed, "form "+spec.Path+" is missing")
		}
		raw, where = value, "form "+spec.Path
	case "signature":
		raw, where = sig.timestamp, sig.where
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
	if digits := timeDigits[spec.Unit]; p.fixedTime && digits > 0 && len(raw) != digits {
		return "", time.Time{}, refuse(ReasonMalformed, where+" has no timestamp of "+strconv.Itoa(digits)+" digits, and nothing separates it from the body")
	}
	return raw, at, nil
}

// timeDigits is how many digits a time has in each unit, from 2001 until 2286.
var timeDigits = map[string]int{"": 10, "s": 10, "ms": 13, "us": 16, "ns": 19}

func unitName(unit string) string {
	switch unit {
	case "ms":
		return "milliseconds"
	case "us":
		return "microseconds"
	case "ns":
		return "nanoseconds"
	case "rfc3339":
		return "RFC 3339"
	case "datetime":
		return "ISO 8601"
	}
	return "seconds"
}

// fresh compares the signed time with the time of receipt, in both directions. Call it only after
// the signature matched, because stale and early mean that the request is authentic.
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

// message writes the signed bytes part by part, which avoids a copy of the body.
func (p *Provider) message(req *Request, at *locator, timestamp string, key []byte, out sink) *Refusal {
	for i := range p.spec.Verify.Signed {
		part := &p.spec.Verify.Signed[i]
		switch {
		case part.Word == "body":
			_, _ = out.Write(req.Body)
		case part.Word == "timestamp":
			_, _ = out.WriteString(timestamp)
		case part.Word == "method":
			_, _ = out.WriteString(req.Method)
		case part.Word == "url":
			_, _ = out.WriteString(req.URL)
		case part.Word == "path", part.Word == "query":
			_, _ = out.WriteString(urlPart(req.URL, part.Word))
		case part.Word == "body-base64":
			_, _ = out.Write(base64Body(req.Body))
		case part.Word == "body-sha256":
			sum := sha256.Sum256(req.Body)
			_, _ = out.Write(sum[:])
		case part.Word == "body-sha256-hex":
			var digits [2 * sha256.Size]byte
			sum := sha256.Sum256(req.Body)
			hex.Encode(digits[:], sum[:])
			_, _ = out.Write(digits[:])
		case part.Word == "secret":
			_, _ = out.Write(key)
		case part.Word == "document":
			document, err := p.extraction.document(req)
			if err != nil {
				return err
			}
			_, _ = out.Write(document)
		case part.Word == "form-sorted":
			form, err := parseForm(req.Body)
			if err != nil {
				return refuse(ReasonMalformed, "body: "+err.Error())
			}
			_, _ = out.WriteString(sortedForm(form))
		case part.JSON != "":
			value, ok := at.json(part.JSON)
			if !ok {
				return refuse(ReasonMalformed, "JSON "+part.JSON+" is missing")
			}
			_, _ = out.WriteString(value)
		case part.Form != "":
			value, ok := at.formField(part.Form)
			if !ok {
				return refuse(ReasonMalformed, "form "+part.Form+" is missing")
			}
			_, _ = out.WriteString(value)
		case part.Query != "":
			value, ok := at.queryField(part.Query)
			if !ok {
				return refuse(ReasonMalformed, "query "+part.Query+" is missing")
			}
			_, _ = out.WriteString(value)
		case part.Literal != "":
			_, _ = out.Write(p.literals[i])
		case len(part.Header) > 0:
			value, name, err := header(req, part.Header)
			if err != nil {
				return err
			}
			if name == "" {
				return refuse(ReasonMalformed, "header "+strings.Join(part.Header, " or ")+" is missing")
			}
			_, _ = out.WriteString(value)
		}
	}
	return nil
}

// verifySignature authenticates a request. It checks each group of signatures separately. If a group
// is authentic but stale or early, the refusal reports that and not the errors of the other groups.
func (p *Provider) verifySignature(req *Request, secrets []Secret) (secret string, at time.Time, err *Refusal) {
	if err := p.required(req); err != nil {
		return "", time.Time{}, err
	}
	if p.spec.Verify.Signature.Format != "groups" {
		// The buffer can be reused, because nothing in it outlives the call.
		one, _ := signedRoom.Get().(*signed)
		if err = p.signatures(req, one); err == nil {
			secret, at, err = p.verifyGroup(req, one, secrets)
		}
		*one = signed{}
		signedRoom.Put(one)
		return secret, at, err
	}
	groups, err := p.groups(req)
	if err != nil {
		return "", time.Time{}, err
	}
	var first *Refusal
	for i := range groups {
		secret, at, err := p.verifyGroup(req, &groups[i], secrets)
		if err == nil {
			return secret, at, nil
		}
		if first == nil || first.Reason == ReasonMismatch {
			first = err
		}
	}
	return "", time.Time{}, first
}

func (p *Provider) verifyGroup(req *Request, sig *signed, secrets []Secret) (secret string, at time.Time, err *Refusal) {
	timestamp, at, err := p.time(req, sig)
	if err != nil {
		return "", time.Time{}, err
	}
	// This pass only detects errors, so that a missing part is malformed for all secrets.
	var public []byte // the whole message, for schemes that need it in one piece
	if !p.partsAlwaysPresent {
		if err := p.message(req, sig.at, timestamp, nil, io.Discard.(sink)); err != nil {
			return "", time.Time{}, err
		}
	}
	keyID, err := p.keyID(req)
	if err != nil {
		return "", time.Time{}, err
	}

	matched := ""
	found := false
	for _, secret := range live(p.keys(secrets), req.ReceivedAt) {
		for i := range p.schemes {
			scheme := &p.schemes[i]
			if !offered(sig.signatures, i) {
				continue
			}
			value, mine := p.keyForID(secret.Value, keyID)
			if !mine {
				continue
			}
			var want []byte
			var verifier publicKey
			state := scheme.macs.take(value)
			if state == nil {
				key, kerr := scheme.key(value, p.schemes)
				if kerr != nil {
					continue
				}
				if !scheme.isPublic() {
					state = &mac{Hash: scheme.mac(key), key: key}
				} else if verifier, kerr = scheme.public(key); kerr != nil {
					continue
				}
			}
			if state != nil {
				_ = p.message(req, sig.at, timestamp, state.key, state)
				want = state.finish()
			} else if public == nil {
				var whole bytes.Buffer
				_ = p.message(req, sig.at, timestamp, nil, &whole)
				public = whole.Bytes()
			}
			hit := false
			for _, s := range sig.signatures {
				if s.scheme != i {
					continue
				}
				var ok bool
				if verifier == nil {
					ok = subtle.ConstantTimeCompare(want, s.sum) == 1
				} else {
					ok = verifier.verify(public, s.sum)
				}
				hit = hit || ok
				if ok && !found {
					matched, found = secret.Name, true
				}
			}
			if state != nil {
				scheme.macs.keep(value, state, hit)
			}
		}
	}
	if !found {
		return "", time.Time{}, refuse(ReasonMismatch, "no live secret matches "+sig.where)
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

// live returns at most MaxSecrets secrets that have not expired.
func live(secrets []Secret, now time.Time) []Secret { return liveAtMost(secrets, now, MaxSecrets) }

func liveAtMost(secrets []Secret, now time.Time, limit int) []Secret {
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
	return secrets[:min(len(secrets), limit)]
}

func over(s *Secret, now time.Time) bool {
	return len(s.Value) == 0 || !s.NotAfter.IsZero() && now.After(s.NotAfter)
}
