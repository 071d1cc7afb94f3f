package providertest

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oncegate/oncegate/providers"
)

// Verifier is what the suite tests: a *providers.Provider, or a deliberately wrong one that the
// suite must detect.
type Verifier interface {
	Spec() *providers.Spec
	CheckSecrets(secrets []providers.Secret) error
	Verify(req *providers.Request, secrets []providers.Secret) (*providers.Delivery, error)
	Sign(req *providers.Request, secret providers.Secret, eventID string) error
}

// Failure is one problem that the suite found.
type Failure struct {
	Case, Check, Text string
}

// String returns the failure in one line.
func (f Failure) String() string { return f.Case + "/" + f.Check + ": " + f.Text }

// suite collects the failures of one vector.
type suite struct {
	v        Verifier
	vector   *Vector
	failures []Failure
	hostile  int // number of variants that must be refused
}

func (s *suite) fail(check, format string, args ...any) {
	s.failures = append(s.failures, Failure{s.vector.Case, check, fmt.Sprintf(format, args...)})
}

// maxFlips limits how many bits of a body are flipped in turn.
const maxFlips = 4096

// Check tests a vector and, if it is valid, every variant of it.
func Check(v Verifier, vector *Vector) []Failure {
	failures, _ := Examine(v, vector)
	return failures
}

// Examine is [Check] that also returns the number of variants that must be refused.
func Examine(v Verifier, vector *Vector) (failures []Failure, hostile int) {
	s := &suite{v: v, vector: vector}
	s.examine()
	return s.failures, s.hostile
}

func (s *suite) examine() {
	vector := s.vector
	d, err := s.verify("vector", vector.Request(), vector.Secrets())
	switch {
	case vector.Valid && err != nil:
		s.fail("vector", "refused a valid one: %v", err)
		return
	case !vector.Valid && err == nil:
		s.fail("vector", "accepted an invalid one")
		return
	case !vector.Valid:
		s.hostile++
		s.expect("vector", err, providers.Reason(vector.Expect))
		return
	}
	s.delivery(d)
	s.secrets()
	s.headers()
	s.values()
	s.body(d)
	s.tolerance(d)
	s.signing()
}

// verify calls Verify and checks what every call must satisfy: errors are refusals and contain no
// secret, and the request is unchanged.
func (s *suite) verify(check string, req *providers.Request, secrets []providers.Secret) (*providers.Delivery, error) {
	body := bytes.Clone(req.Body)
	d, err := s.v.Verify(req, secrets)
	if !bytes.Equal(body, req.Body) {
		s.fail(check, "changed the body")
	}
	if err == nil {
		if d == nil {
			s.fail(check, "neither a delivery nor an error")
			return nil, errors.New("nothing")
		}
		return d, nil
	}
	if _, ok := errors.AsType[*providers.Refusal](err); !ok {
		s.fail(check, "the error is not a refusal: %T", err)
	}
	if d != nil {
		s.fail(check, "a delivery beside an error")
	}
	for _, secret := range secrets {
		s.leaks(check, err, string(secret.Value))
	}
	if strings.ContainsAny(err.Error(), "\r\n") {
		s.fail(check, "the error has more than one line")
	}
	return nil, err
}

func (s *suite) leaks(check string, err error, secret string) {
	if secret == "secret" {
		return // published examples use this word, and so do our own messages
	}
	if len(secret) >= 4 && strings.Contains(err.Error(), secret) {
		s.fail(check, "the error contains the secret")
	}
}

func (s *suite) expect(check string, err error, reasons ...providers.Reason) {
	var refusal *providers.Refusal
	if !errors.As(err, &refusal) {
		return
	}
	for _, reason := range reasons {
		if reason == "" || reason == refusal.Reason {
			return
		}
	}
	s.fail(check, "refused as %s, expected %v", refusal.Reason, reasons)
}

func (s *suite) refused(check string, req *providers.Request, secrets []providers.Secret, reasons ...providers.Reason) {
	s.hostile++
	_, err := s.verify(check, req, secrets)
	if err == nil {
		s.fail(check, "accepted")
		return
	}
	if len(reasons) > 0 {
		s.expect(check, err, reasons...)
	}
}

func (s *suite) delivery(d *providers.Delivery) {
	if s.held() && d.Secret != "current" {
		s.fail("delivery", "does not name the secret that matched")
	}
	for _, item := range d.Items {
		if (item.EventID == "") == (item.Unusable == "") {
			s.fail("delivery", "an item has an id or is unusable, exactly one of them")
		}
		if item.Offset < 0 || item.Length < 0 || item.Offset+item.Length > len(s.vector.Request().Payload()) {
			s.fail("delivery", "an item lies outside the body")
		}
		if len(item.EventID) > 255 || len(item.Type) > 255 {
			s.fail("delivery", "an id or type is too long")
		}
	}
}

// others returns secrets that the verifier can decode and that are not the vector's.
func (s *suite) others() []providers.Secret {
	bytes32 := []byte("another key of thirty-two bytes!")
	var out []providers.Secret
	for _, value := range []string{
		"another:secret",
		"whsec_" + base64.StdEncoding.EncodeToString(bytes32),
		"whpk_" + base64.StdEncoding.EncodeToString(bytes32),
		base64.StdEncoding.EncodeToString(bytes32),
		hex.EncodeToString(bytes32),
		otherRSA,
		otherP256,
		idOf(s.vector.Secret) + "=another secret of some length",
		idOf(s.vector.Secret) + "=" + base64.StdEncoding.EncodeToString(bytes32),
		idOf(s.vector.Secret) + "=" + otherRSA,
		idOf(s.vector.Secret) + "=" + otherEd25519,
		idOf(s.vector.Secret) + "=" + otherP256,
	} {
		if value == s.vector.Secret || strings.HasPrefix(value, "-----BEGIN") && strings.Count(value, "-----BEGIN") > 1 {
			continue
		}
		secret := providers.Secret{Name: "other", Value: []byte(value)}
		if s.v.CheckSecrets([]providers.Secret{secret}) == nil {
			out = append(out, secret)
		}
	}
	return out
}

func (s *suite) secrets() {
	if !s.held() {
		s.keyless()
		return
	}
	right := s.vector.Secrets()[0]
	empty := providers.Secret{Name: "empty"}
	if err := s.v.CheckSecrets([]providers.Secret{right}); err != nil {
		s.fail("secrets", "the vector's secret is refused: %v", err)
	}
	if err := s.v.CheckSecrets(nil); err == nil && s.way().Family != "jwt" { // a JWT family may use public keys
		s.fail("no-secrets", "taken at load")
	}
	for _, blank := range []string{"", " ", "\n"} {
		err := s.v.CheckSecrets([]providers.Secret{right, {Name: "empty", Value: []byte(blank)}})
		if err == nil {
			s.fail("empty-secret", "taken at load")
		} else {
			s.leaks("empty-secret", err, string(right.Value))
		}
	}
	s.refused("no-secrets", s.vector.Request(), nil)
	s.refused("empty-secret", s.vector.Request(), []providers.Secret{empty})
	others := s.others()
	if len(others) == 0 {
		s.fail("wrong-secret", "no other secret decodes")
	}
	for _, other := range others {
		s.refused("wrong-secret", s.vector.Request(), []providers.Secret{other}, providers.ReasonMismatch)
		for _, order := range [][]providers.Secret{{other, right}, {right, other}} {
			d, err := s.verify("rotation", s.vector.Request(), order)
			if err != nil {
				s.fail("rotation", "refused with an old and a new secret: %v", err)
			} else if d.Secret != "current" {
				s.fail("rotation", "names the wrong secret")
			}
		}
	}
	// Signing with an empty key must fail as well.
	forged := s.vector.Request()
	if err := s.v.Sign(forged, providers.Secret{Name: "none", Value: nil}, ""); err == nil {
		s.fail("empty-secret", "signed with an empty secret")
	}
	expired := right
	expired.NotAfter = s.vector.Request().ReceivedAt.Add(-time.Second)
	s.refused("expired-secret", s.vector.Request(), []providers.Secret{expired})
	lasting := right
	lasting.NotAfter = s.vector.Request().ReceivedAt.Add(time.Second)
	if _, err := s.verify("expired-secret", s.vector.Request(), []providers.Secret{lasting}); err != nil {
		s.fail("expired-secret", "refused before it is over: %v", err)
	}
}

// carriers returns the headers of the vector that contain the proof, and the headers of
// the signed time and the other signed parts.
func (s *suite) carriers() (proof, other []string) {
	spec := s.way()
	present := func(names []string) string {
		for _, name := range names {
			if s.vector.Request().Header.Get(name) != "" {
				return http.CanonicalHeaderKey(name)
			}
		}
		return ""
	}
	add := func(list []string, names ...string) []string {
		if name := present(names); name != "" {
			return append(list, name)
		}
		return list
	}
	proof = add(proof, s.proofHeaders()...)
	for _, c := range spec.Credential {
		name := c.Header
		if name == "" {
			name = "Authorization"
		}
		if len(proof) == 0 {
			proof = add(proof, name)
		}
	}
	other = add(other, spec.Timestamp.Header...)
	for _, part := range spec.Signed {
		other = add(other, part.Header...)
	}
	return proof, other
}

func (s *suite) headers() {
	proof, other := s.carriers()
	if len(proof) == 0 && s.inHeaders() {
		s.fail("headers", "no header carries the proof")
	}
	if s.several() {
		proof = nil
	}
	for _, name := range proof {
		dropped := s.vector.Request()
		dropped.Header.Del(name)
		s.refused("dropped", dropped, s.vector.Secrets(), providers.ReasonUnsigned)
		blank := s.vector.Request()
		blank.Header.Set(name, "")
		s.refused("blank", blank, s.vector.Secrets(), providers.ReasonUnsigned)
		for _, value := range []string{" ", ",", "=", "v1", "\xff\xfe", strings.Repeat("a", 1<<16), strings.Repeat("v1=00,", 1000), strings.Repeat("v1,AA== ", 1000)} {
			garbage := s.vector.Request()
			garbage.Header.Set(name, value)
			s.refused("garbage", garbage, s.vector.Secrets())
		}
		value := dropEnd(s.vector.Request().Header.Get(name))
		short := s.vector.Request()
		short.Header.Set(name, value)
		s.refused("shortened", short, s.vector.Secrets())
	}
	if s.way().Signature.Repeats {
		proof = nil
	}
	for i, name := range append(proof, other...) {
		reason := providers.ReasonMalformed
		if i >= len(proof) {
			reason = s.unread()
		}
		twice := s.vector.Request()
		twice.Header.Add(name, twice.Header.Get(name))
		s.refused("twice", twice, s.vector.Secrets(), reason)
		appended := s.vector.Request()
		appended.Header[name] = append(appended.Header[name], "x")
		s.refused("twice", appended, s.vector.Secrets(), reason)
	}
	for _, name := range other {
		gone := s.vector.Request()
		gone.Header.Del(name)
		s.refused("dropped", gone, s.vector.Secrets(), s.unread())
		changed := s.vector.Request()
		changed.Header.Set(name, "0"+changed.Header.Get(name))
		s.refused("changed", changed, s.vector.Secrets())
	}
}

// unread returns the expected reason for a request with unreadable signed headers. It is empty for
// a provider with modes, because a header may select another mode.
func (s *suite) unread() providers.Reason {
	if len(s.v.Spec().Modes) > 0 {
		return ""
	}
	return providers.ReasonMalformed
}

// dropEnd shortens the value of a header, in every item of a list.
func dropEnd(value string) string {
	separator := " "
	if strings.Contains(value, ",t=") || strings.Contains(value, ",v1=") || strings.Contains(value, ",v0=") {
		separator = ","
	}
	items := strings.Split(value, separator)
	for i, item := range items {
		if len(item) > 12 && !strings.HasPrefix(item, "t=") {
			items[i] = item[:12]
		} else if i == len(items)-1 && len(item) > 1 {
			items[i] = item[:len(item)-1]
		}
	}
	return strings.Join(items, separator)
}

func (s *suite) tolerance(d *providers.Delivery) {
	spec := &s.way().Timestamp
	if !s.timed() {
		return
	}
	if d.SignedAt.IsZero() {
		s.fail("tolerance", "the signed time is missing")
		return
	}
	move := func(distance time.Duration) *providers.Request {
		req := s.vector.Request()
		req.ReceivedAt = d.SignedAt.Add(distance)
		return req
	}
	past, future := time.Duration(spec.Past), time.Duration(spec.Future)
	if spec.Past == providers.Off || spec.Future == providers.Off {
		return
	}
	for _, distance := range []time.Duration{past, -future, 0} {
		if _, err := s.verify("tolerance", move(distance), s.vector.Secrets()); err != nil {
			s.fail("tolerance", "refused %s from the signed time: %v", distance, err)
		}
	}
	s.refused("stale", move(past+time.Second), s.vector.Secrets(), providers.ReasonStale)
	s.refused("early", move(-future-time.Second), s.vector.Secrets(), providers.ReasonEarly)
	if len(s.vector.Keys) == 0 { // certificates are not valid for that long
		s.refused("stale", move(10*365*24*time.Hour), s.vector.Secrets(), providers.ReasonStale)
	}
}

// signing checks that a request from Sign verifies, with the given event id if a header contains
// it.
func (s *suite) signing() {
	if s.unsignable() {
		return
	}
	var secret providers.Secret
	if secrets := s.vector.Secrets(); len(secrets) > 0 {
		secret = secrets[0]
	}
	if s.vector.SignSecret != "" {
		secret.Value = []byte(s.vector.SignSecret)
	} else if strings.HasPrefix(s.vector.Secret, "whpk_") {
		return // signing needs the private key
	}
	req := s.vector.Request()
	req.ReceivedAt = req.ReceivedAt.Add(7 * time.Hour)
	if err := s.v.Sign(req, secret, "evt_signed"); err != nil {
		if OnlyTheirs(err) {
			return
		}
		s.fail("sign", "cannot sign: %v", err)
		return
	}
	if _, err := s.verify("sign", req, s.vector.Secrets()); err != nil {
		s.fail("sign", "does not verify what it signed: %v", err)
	}
}
