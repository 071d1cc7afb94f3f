package providers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Mistake names the problem of a request that does not verify, or of the secret that was used. The
// set is closed.
//
// Stored: never change the text of one.
type Mistake string

// These are the mistakes that [Provider.Diagnose] recognises. All except the last few are proved:
// with the mistake corrected, the signature matches.
const (
	// MistakeSecret: the secret was entered wrongly (a line break, quotation marks, an extra
	// prefix, ...).
	MistakeSecret Mistake = "secret_written"
	// MistakeDecoding: the secret is right but was decoded in the wrong way.
	MistakeDecoding Mistake = "secret_decoding"
	// MistakeExpired: the request matches a secret that has expired.
	MistakeExpired Mistake = "secret_expired"
	// MistakeUnreadable: a secret cannot be a key of this provider.
	MistakeUnreadable Mistake = "secret_unreadable"
	// MistakeBody: the body differs from the signed bytes.
	MistakeBody Mistake = "body_changed"
	// MistakeURL: the signature covers another address.
	MistakeURL Mistake = "url_differs"
	// MistakeMethod: the signature covers another method.
	MistakeMethod Mistake = "method_differs"
	// MistakeHeader: the signature or credential is in another header, or in another form than
	// expected.
	MistakeHeader Mistake = "header_differs"
	// MistakeScheme: the signature was made with another method (algorithm, encoding, signed
	// parts).
	MistakeScheme Mistake = "scheme_differs"
	// MistakeStale: the request is authentic and too old.
	MistakeStale Mistake = "stale"
	// MistakeEarly: the request is authentic and was signed in the future.
	MistakeEarly Mistake = "early"
	// MistakeProvider: the request is from another provider.
	MistakeProvider Mistake = "other_provider"
	// MistakeUnknown: none of the other mistakes explains the refusal.
	MistakeUnknown Mistake = "unknown"
)

// Finding is one mistake, with an explanation for the operator.
type Finding struct {
	Mistake Mistake `json:"mistake"`
	Text    string  `json:"text"`
}

// Diagnosis explains why a request does not verify. Show it only to operators, because it would
// help a forger. It never contains a secret, an expected signature or a part of the body.
type Diagnosis struct {
	// Reason and Detail come from the refusal. Both are empty for a request that verifies.
	Reason Reason `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`

	// Findings explain the refusal, the most significant first. It is empty for a request that
	// verifies.
	Findings []Finding `json:"findings,omitempty"`
}

// String returns the findings in one line.
func (d *Diagnosis) String() string {
	texts := make([]string, len(d.Findings))
	for i, f := range d.Findings {
		texts[i] = f.Text
	}
	return strings.Join(texts, "; ")
}

// Kind returns the mistake of the first finding, or an empty string if there is none.
func (d *Diagnosis) Kind() string {
	if len(d.Findings) == 0 {
		return ""
	}
	return string(d.Findings[0].Mistake)
}

// DiagnoseOptions configures the search. The zero value is usable.
type DiagnoseOptions struct {
	// Work limits how many bytes the search may hash, rewrite or allocate. It defaults to 2 MiB
	// plus 48 times the body, at most 24 MiB, which takes about ten milliseconds.
	Work int64

	// Others are the other providers from which the request may have come.
	Others []*Provider
}

// perTry is the fixed cost of a try, in bytes hashed, in addition to its body.
const perTry = 8 << 10

func defaultWork(body int) int64 { return min(2<<20+48*int64(body), 24<<20) }

// Diagnose explains why a request does not verify. It corrects the usual mistakes, first one and
// then two at a time, and names the mistake with whose correction the signature matches. It costs
// far more than [Provider.Verify], so never call it while a delivery waits.
func (p *Provider) Diagnose(req *Request, secrets []Secret, opts DiagnoseOptions) *Diagnosis {
	if opts.Work == 0 {
		opts.Work = defaultWork(len(req.Body))
	}
	d := &Diagnosis{}
	_, err := p.Verify(req, secrets)
	if err == nil {
		return d
	}
	refusal, ok := errors.AsType[*Refusal](err)
	if !ok {
		d.Detail = err.Error()
		d.Findings = []Finding{{MistakeUnknown, "the verification could not be carried out"}}
		return d
	}
	d.Reason, d.Detail = refusal.Reason, refusal.Detail
	p = p.mode(req)
	if p.fetcher != nil {
		sparing := *p
		sparing.fetcher = &sparingFetcher{from: p.fetcher, got: map[string]fetched{}}
		p = &sparing
	}
	if p.asker != nil {
		alone := *p
		alone.asker = unasked{}
		p = &alone
	}
	s := &search{base: trial{p: p.lenient(), req: *req, secrets: secrets}, left: opts.Work}
	switch refusal.Reason {
	case ReasonStale, ReasonEarly:
		d.Findings = append(d.Findings, s.untimely(p, refusal))
		return d
	case ReasonUnidentified, ReasonUnknownOperation:
		d.Findings = append(d.Findings, Finding{MistakeHeader, "the credential is right, but the caller does not name its operation as the source wants it: " + refusal.Detail})
		return d
	case ReasonUnsigned, ReasonMalformed, ReasonMismatch:
	}
	if p.asker != nil && refusal.Reason == ReasonMismatch && s.fits(&s.base) {
		d.Findings = append(d.Findings, Finding{MistakeBody, "the signature is right, and the provider, which was asked, did not send this: the body may have been made to fit the signature"})
		return d
	}
	for _, search := range []func() *Finding{s.one, func() *Finding { return s.others(opts.Others) }, s.two} {
		if found := search(); found != nil {
			d.Findings = append(d.Findings, *found)
			if late := late(p, s.delivery, req.ReceivedAt); late != nil {
				d.Findings = append(d.Findings, *late)
			}
			return d
		}
	}
	if err := p.CheckSecrets(secrets); err != nil {
		d.Findings = append(d.Findings, Finding{MistakeUnreadable, strings.ReplaceAll(err.Error(), "\n", "; ")})
	}
	if found := s.foreign(opts.Others); found != nil {
		d.Findings = append(d.Findings, *found)
		return d
	}
	d.Findings = append(d.Findings, clues(p, req, refusal)...)
	d.Findings = append(d.Findings, s.giveUp(refusal))
	return d
}

// trial is a request and the means to verify it, with some of them changed.
type trial struct {
	p       *Provider
	req     Request
	secrets []Secret
}

// change corrects one mistake. ok is false if the request does not have that mistake.
type change struct {
	mistake Mistake
	text    string
	cost    int64 // upper bound for the cost of applying it, in bytes
	apply   func(t *trial) (ok bool)
}

// search tries changes until one fits or the work is exhausted.
type search struct {
	base     trial
	left     int64
	delivery *Delivery // the delivery of the last fitting trial; may be nil

	secrets, request, scheme, bodies []change
	cut                              bool // not all single changes were tried
}

// spent reports whether the work is exhausted.
func (s *search) spent() bool { return s.left < 0 }

// fits reports whether the trial's request is authentic.
func (s *search) fits(t *trial) bool {
	s.left -= int64(t.p.readings()*len(t.req.Body)+perTry) * int64(max(1, len(t.secrets))*max(1, len(t.p.schemes)))
	if s.spent() {
		return false
	}
	d, err := t.p.Verify(&t.req, t.secrets)
	s.delivery = d
	return err == nil || isUntimely(err) || errors.Is(err, errUnasked)
}

// readings returns how many times its body a verification costs. Families with the signature inside
// the body, or over the body's parsed content, parse the body before anything is authenticated.
func (p *Provider) readings() int {
	if p.spec.Verify.signs() {
		return 1
	}
	switch p.spec.Verify.Family {
	case "adyen", "adyen-platform", "adobe-io", "braintree", "event-grid", "microsoft-graph", "paddle-classic", "segment", "sns", "twilio", "vonage-sms":
		return 16
	}
	return 1
}

func isUntimely(err error) bool {
	refusal, ok := errors.AsType[*Refusal](err)
	return ok && (refusal.Reason == ReasonStale || refusal.Reason == ReasonEarly || refusal.Reason == ReasonUnidentified)
}

// one returns the single change with which the request verifies.
func (s *search) one() *Finding {
	s.secrets, s.scheme = s.secretChanges(), s.schemeChanges()
	s.request = append(s.headerChanges(), s.urlChanges()...)
	s.bodies = s.bodyChanges()
	for _, changes := range [][]change{s.secrets, s.request, s.scheme, s.bodies} {
		for i := range changes {
			if s.try(&changes[i]) {
				return &Finding{changes[i].mistake, changes[i].text}
			}
		}
	}
	s.cut = s.cut || s.spent()
	return nil
}

// two returns two changes of different kinds with which the request verifies.
func (s *search) two() *Finding {
	for _, pair := range [][2][]change{
		{s.secrets, s.request}, {s.secrets, s.scheme}, {s.request, s.scheme}, {s.secrets, s.bodies}, {s.request, s.bodies}, {s.scheme, s.bodies},
	} {
		for i := range pair[0] {
			for j := range pair[1] {
				if s.spent() {
					return nil
				}
				if a, b := &pair[0][i], &pair[1][j]; s.try(a, b) {
					return &Finding{a.mistake, a.text + "; and " + b.text}
				}
			}
		}
	}
	return nil
}

func (s *search) try(changes ...*change) bool {
	if s.spent() {
		return false
	}
	t := s.base
	for _, c := range changes {
		if c.cost > s.left/2 { // keep work for the cheaper changes
			s.cut = true
			return false
		}
		s.left -= c.cost
		if !c.apply(&t) {
			return false
		}
	}
	return s.fits(&t)
}

// others checks whether the request verifies with another provider.
func (s *search) others(others []*Provider) *Finding {
	for _, other := range others {
		if other.name == s.base.p.name || other.IsMessage() { // which takes everything
			continue
		}
		t := s.base
		t.p = other.mode(&t.req).lenient()
		if s.fits(&t) {
			return &Finding{MistakeProvider, "it verifies as a delivery of " + other.name}
		}
	}
	return nil
}

// foreign looks for the signature header of another provider.
func (s *search) foreign(others []*Provider) *Finding {
	for _, other := range others {
		for _, name := range other.spec.Verify.Signature.Headers {
			// A header that several providers use (X-Signature) proves nothing.
			if shared(others, name) || s.base.p.reads(name) || s.base.req.Header.Get(name) == "" {
				continue
			}
			return &Finding{MistakeProvider, "it carries " + name + ", the signature header of " + other.name}
		}
	}
	return nil
}

func (p *Provider) reads(header string) bool {
	for _, name := range p.spec.Verify.Signature.Headers {
		if strings.EqualFold(name, header) {
			return true
		}
	}
	return false
}

func shared(all []*Provider, header string) bool {
	users := 0
	for _, p := range all {
		if p.reads(header) {
			users++
		}
	}
	return users > 1
}

// giveUp returns the last finding if nothing was proved.
func (s *search) giveUp(refusal *Refusal) Finding {
	text := "none of the usual mistakes explains it: most likely it was signed with another secret, or its content was changed on the way"
	switch {
	case refusal.Reason == ReasonUnsigned:
		text = "no header contains a matching signature or credential: it may not come from the provider at all"
	case s.cut && len(s.base.req.Body) >= largeBody:
		text = "none of the likeliest mistakes explains it (the body is too large to try all)"
	case s.cut:
		text = "none of the likeliest mistakes explains it (there are too many to try all)"
	}
	if refusal.Reason == ReasonMismatch && s.base.p.addressSigned() {
		text += "; the address is signed, and " + s.base.req.URL + " was checked: if the sender was given another one, set external_url of the source, or give it with --url"
	}
	return Finding{MistakeUnknown, text}
}

// largeBody is the size from which a body limits how many mistakes are tried.
const largeBody = 64 << 10

// addressFamilies lists the schemes whose signature covers the address of the request.
var addressFamilies = []string{"twilio", "hubspot", "messagebird", "atlassian", "contentful"}

// addressSigned reports whether the signature covers the address of the request.
func (p *Provider) addressSigned() bool {
	return slices.Contains(addressFamilies, p.spec.Verify.Family) || slices.ContainsFunc(p.spec.Verify.Signed, func(part Part) bool {
		return part.Word == "url" || part.Word == "path" || part.Word == "query"
	})
}

// clues returns observations that prove nothing but often explain the refusal.
func clues(p *Provider, req *Request, refusal *Refusal) []Finding {
	var out []Finding
	if length := req.Header.Get("Content-Length"); length != "" && length != fmt.Sprint(len(req.Body)) {
		out = append(out, Finding{MistakeBody, fmt.Sprintf("Content-Length says %.20s and the body has %d bytes: it was cut or changed", length, len(req.Body))})
	}
	if refusal.Reason != ReasonMismatch {
		return out
	}
	switch {
	case len(req.Body) == 0:
		out = append(out, Finding{MistakeBody, "the body is empty: something read it before"})
	case len(out) == 0 && p.spec.Body.Format != "any" && p.spec.Body.Format != "xml" && !isForm(req) && !isJSON(req.Body):
		out = append(out, Finding{MistakeBody, "the body is not JSON: it may have been cut or decoded on the way"})
	}
	return out
}

// untimely explains an authentic request outside the tolerance.
func (s *search) untimely(p *Provider, refusal *Refusal) Finding {
	t := s.base
	if s.fits(&t) {
		if found := late(p, s.delivery, t.req.ReceivedAt); found != nil {
			found.Text += "; the signature itself is right"
			return *found
		}
	}
	if found := lapsed(p, &s.base.req); found != nil && found.Mistake == Mistake(refusal.Reason) {
		return *found
	}
	return Finding{Mistake(refusal.Reason), refusal.Detail + "; the signature itself is right"}
}

// late says by how much a delivery exceeds the tolerance. It returns nil if the delivery is within
// the tolerance.
func late(p *Provider, d *Delivery, received time.Time) *Finding {
	if d == nil || d.SignedAt.IsZero() {
		return nil
	}
	spec := &p.spec.Verify.Timestamp
	age := received.Sub(d.SignedAt)
	say := func(m Mistake, word string, by time.Duration, allowed Duration) *Finding {
		return &Finding{m, fmt.Sprintf("%s by %d seconds: signed at %s, received at %s, %d seconds are allowed", word,
			int64((by-time.Duration(allowed)+time.Second-1)/time.Second),
			d.SignedAt.UTC().Format(time.RFC3339), received.UTC().Format(time.RFC3339), int64(time.Duration(allowed)/time.Second))}
	}
	switch {
	case spec.Past != Off && age > time.Duration(spec.Past):
		return say(MistakeStale, "stale", age, spec.Past)
	case spec.Future != Off && -age > time.Duration(spec.Future):
		return say(MistakeEarly, "early", -age, spec.Future)
	}
	return nil
}

// variant returns the provider with a changed spec. change must replace slices and maps and never
// write into them, because the original shares them.
func (p *Provider) variant(change func(s *Spec)) *Provider {
	spec := *p.spec
	// A trial verifies one request in one mode and needs no handshake.
	spec.Modes, spec.Handshakes = nil, nil
	change(&spec)
	v := compile(p.name, &spec)
	v.reserved, v.bound, v.settings, v.fetcher, v.asker = p.reserved, p.bound, p.settings, p.fetcher, p.asker
	return v
}

// lenient returns the provider without a tolerance, to check a signature independently of its age.
func (p *Provider) lenient() *Provider {
	return p.variant(func(s *Spec) { s.Verify.Timestamp.Past, s.Verify.Timestamp.Future = Off, Off })
}
