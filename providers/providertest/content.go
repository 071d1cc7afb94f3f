package providertest

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/providers"
)

// otherP256 is a public key whose private key was discarded.
const otherP256 = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEpiA0sJG9DiBSrQqSeglR2amAX3Xc+MI1F4RfrrIZ/Ra88PW4079aoPa9MPQN34Ar6vuAMig0s0Un3a5XyXZdtw=="

// way returns the verification rules for the vector's request: a mode's, or the provider's own.
func (s *suite) way() *providers.VerifySpec {
	if m, ok := s.v.(interface {
		VerifySpec(req *providers.Request) *providers.VerifySpec
	}); ok {
		return m.VerifySpec(s.vector.Request())
	}
	return &s.v.Spec().Verify
}

// content returns the signed content of a body if the signature does not cover its exact bytes:
// fields of a form, or the first event of a batch. ok is false if the bytes themselves are signed.
func (s *suite) content(body []byte) (signed string, ok bool) {
	spec := s.way()
	form := func() url.Values {
		values, err := url.ParseQuery(string(body))
		if err != nil {
			return url.Values{"not a form": {string(body)}}
		}
		return values
	}
	isForm := strings.HasPrefix(s.vector.Request().Header.Get("Content-Type"), "application/x-www-form-urlencoded")
	switch spec.Family {
	case "twilio":
		return joined(form()), isForm
	case "vonage-sms":
		values := form()
		values.Set("sig", strings.ToLower(values.Get("sig")))
		return strings.NewReplacer("%26", "_", "%3D", "_").Replace(values.Encode()), true
	case "segment":
		var events []json.RawMessage
		if json.NewDecoder(bytes.NewReader(body)).Decode(&events) != nil || len(events) == 0 {
			return string(body), bytes.HasPrefix(body, []byte("["))
		}
		return string(events[0]), true
	}
	for i := range spec.Signed {
		part := &spec.Signed[i]
		switch {
		case part.Word == "form-sorted":
			return joined(form()), true
		case part.Word == "document" && isForm:
			return strings.Join(form()[s.v.Spec().Body.FormJSON], "\x00"), true
		case part.Form != "":
			return strings.Join(form()[part.Form], "\x00"), true
		}
	}
	// A time inside the signed body is read before the change to the body is detected.
	return string(body), spec.Timestamp.From == "json"
}

// joined encodes a form like senders that sign names and values without separators.
func joined(form url.Values) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(form)) {
		values := slices.Clone(form[name])
		slices.Sort(values)
		for _, value := range slices.Compact(values) {
			b.WriteString(name + value)
		}
	}
	return b.String()
}

// changed requires that the verifier refuses a changed body. If the signature covers something
// other than the body's bytes, a change that leaves the signed content equal may pass.
func (s *suite) changed(check string, req *providers.Request) {
	after, ok := s.content(req.Body)
	if !ok {
		s.refused(check, req, s.vector.Secrets(), providers.ReasonMismatch)
		return
	}
	s.hostile++
	d, err := s.verify(check, req, s.vector.Secrets())
	if before, _ := s.content([]byte(s.vector.Body)); err != nil || before == after {
		return
	}
	for i := range d.Items {
		if d.Items[i].Unusable == "" {
			s.fail(check, "accepted, and something else was signed")
			return
		}
	}
}

// several reports whether several headers contain a proof, each of which is sufficient.
func (s *suite) several() bool {
	spec := &s.way().Signature
	present := 0
	for _, name := range spec.Headers {
		if s.vector.Request().Header.Get(name) != "" {
			present++
		}
	}
	return spec.From == "all-headers" && present > 1 || spec.From == "numbered-headers"
}

// public reports whether all keys are public keys, which cannot sign.
func (s *suite) public() bool {
	schemes := s.way().Signature.Schemes
	return len(schemes) > 0 && s.vector.SignSecret == "" && !slices.ContainsFunc(schemes, func(c providers.SchemeSpec) bool {
		return !strings.HasPrefix(c.Algorithm, "rsa-") && !strings.HasPrefix(c.Algorithm, "ecdsa-") && c.Algorithm != "ed25519"
	})
}
