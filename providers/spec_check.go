package providers

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/jsonspan"
	"github.com/oncegate/oncegate/internal/yamltree"

	schemes "github.com/oncegate/oncegate/providers/scheme"
)

// defaultTolerance is how far a signed time may be before or after the receipt.
const defaultTolerance = 300 * time.Second

// These are the defaults of the answers.
const (
	ackType = "application/json"
	ackBody = `{"event":"{{event}}","status":"{{status}}"}`
)

func (d *specReader) defaults(s *Spec) {
	if len(s.Request.Methods) == 0 {
		s.Request.Methods = []string{http.MethodPost}
	}
	if s.Request.MaxBody == 0 {
		s.Request.MaxBody = 1 << 20
	}
	if s.Split.Form != "" {
		s.Body.Form = true
		setDefault(&s.Body.FormJSON, s.Split.Form)
		setDefault(&s.Split.JSON, "$")
	}
	verifyDefaults(&s.Verify)
	modes := slices.Clone(s.Modes)
	for i := range modes {
		verifyDefaults(&modes[i].Verify)
	}
	s.Modes = modes
	setDefault(&s.Body.Format, "json")
	setDefault(&s.Identity.Mode, "id")
	setDefault(&s.Sequence.Kind, "none")
	answerDefaults(&s.Ack, http.StatusOK, ackType, ackBody)
	if s.Reject.Body == "" {
		s.Reject.Empty = true
	}
	answerDefaults(&s.Reject, http.StatusUnauthorized, "text/plain", "")
	handshakes := slices.Clone(s.Handshakes)
	for i := range handshakes {
		setDefault(&handshakes[i].Method, http.MethodPost)
		answerDefaults(&handshakes[i].Respond, http.StatusOK, "text/plain", "")
	}
	s.Handshakes = handshakes
	reconcileDefaults(&s.Reconcile)
	floor := 3 * max(s.Windows.Retry.For, s.Windows.Resend.For, s.Windows.List.For)
	if s.Windows.Floor < floor {
		s.Windows.Floor = floor
	}
}

func verifyDefaults(v *VerifySpec) {
	setDefault(&v.Authenticates, map[bool]string{true: "body", false: "origin"}[v.signs()])
	if v.signs() {
		setDefault(&v.Signature.From, "header")
		setDefault(&v.Signature.Format, "value")
	}
	setDefault(&v.Timestamp.From, "none")
	setDefault(&v.Timestamp.Unit, "s")
	setDefault(&v.Key.Select, "all")
	if v.Timestamp.Past == 0 {
		v.Timestamp.Past = Duration(defaultTolerance)
	}
	if v.Timestamp.Future == 0 {
		v.Timestamp.Future = Duration(defaultTolerance)
	}
	if v.Family == familyOperation {
		setDefault(&v.Operation.Key, "Idempotency-Key")
		setDefault(&v.Operation.Name, "Oncegate-Operation")
	}
}

func setDefault(s *string, value string) {
	if *s == "" {
		*s = value
	}
}

func answerDefaults(a *AnswerSpec, status int, contentType, body string) {
	if a.Status == 0 {
		a.Status = status
	}
	if a.Empty {
		if a.Body == body {
			a.Body = "" // the default of the provider that this one extends
		}
		return
	}
	setDefault(&a.ContentType, contentType)
	setDefault(&a.Body, body)
}

// choice checks a value against a closed set. It reports a known value that is not yet implemented
// differently from a misspelt one.
func (d *specReader) choice(path, value string, built, planned []string) {
	switch {
	case slices.Contains(built, value):
	case slices.Contains(planned, value):
		d.at(path, "%q is not implemented in this version", value)
	case value == "":
		d.at(path, "is missing; known are %s", strings.Join(built, ", "))
	default:
		d.at(path, "%q: unknown; %sknown are %s", value, yamltree.DidYouMean(built, value), strings.Join(built, ", "))
	}
}

func (d *specReader) check(s *Spec) {
	if s.Docs != "" {
		d.link("docs", s.Docs)
	}
	for _, m := range s.Request.Methods {
		d.choice("request.methods", m, []string{"POST", "PUT", "GET"}, []string{"DELETE", "PATCH"})
		if m == http.MethodGet && slices.ContainsFunc(s.Verify.Credential, func(c CredentialSpec) bool { return c.Scheme == "query" }) {
			d.at("request.methods", "GET does not go with a credential in the query: the address of such a delivery is recorded as its content")
		}
	}
	for _, e := range s.Request.Encodings {
		d.choice("request.encodings", e, nil, []string{"gzip", "deflate"})
	}
	if s.Request.MaxBody > 64<<20 {
		d.at("request.max_body", "at most 64MiB")
	}
	d.formJSON = s.Body.FormJSON
	d.verify(&s.Verify)
	d.modes(s)
	d.choice("body.format", s.Body.Format, []string{"json", "any"}, []string{"xml"})
	if s.Body.FormJSON != "" && !s.Body.Form && !s.Body.Multipart {
		d.at("body.form_json", "needs body.form: true")
	}
	if s.Split.Form != "" && s.Split.Form != s.Body.FormJSON {
		d.at("split.form", "is another field than body.form_json")
	}
	for array := range strings.SplitSeq(s.Split.JSON, nestedMark) {
		if s.Split.JSON != "" {
			d.path("split.json", array)
		}
	}
	if s.Split.Otherwise != "" {
		d.choice("split.otherwise", s.Split.Otherwise, []string{"one", "lines", "elements"}, nil)
		if s.Split.JSON == "" {
			d.at("split.otherwise", "needs split.json")
		}
	}
	if s.Split.ContentType != "" && s.Split.JSON == "" {
		d.at("split.content_type", "needs split.json")
	}
	d.identity(s)
	d.fields("type", s.Type, s, false)
	d.fields("occurred_at", s.OccurredAt, s, true)
	d.sequence(s)
	for i, p := range s.Volatile {
		if p == "" || p == "$" || slices.Contains(strings.Split(p, "."), "") {
			d.at(fmt.Sprintf("volatile[%d]", i), "is not a JSON path of a field")
		}
	}
	for i := range s.Handshakes {
		d.handshake(fmt.Sprintf("handshakes[%d]", i), &s.Handshakes[i], s)
	}
	d.answer("ack", &s.Ack, s.Ack.Status >= 200 && s.Ack.Status < 300, "is not a success")
	d.answer("reject", &s.Reject, s.Reject.Status >= 400 && s.Reject.Status < 500, "is not 4xx")
	if s.Example.Source != "" {
		d.link("example.source", s.Example.Source)
	}
	for _, name := range s.Example.Own {
		d.choice("example.own", name, []string{"type", "occurred_at", "sequence"}, nil)
	}
	d.types(&s.Types)
	d.windows(&s.Windows)
	d.reconcile(s)
	if s.Windows.Age != "" {
		d.choice("windows.age", s.Windows.Age, []string{"occurred_at"}, nil)
	}
	if s.Windows.Age != "" && len(s.OccurredAt) == 0 {
		d.at("windows.age", "there is no occurred_at")
	}
	d.settings(s.Settings)
	if _, err := time.Parse("2006-01", s.Checked); s.Checked != "" && err != nil {
		d.at("checked", "is not a year and a month, such as 2026-11")
	}
	d.provedBy("proved_by", s.ProvedBy)
	for i := range s.Modes {
		d.provedBy(fmt.Sprintf("modes[%d].proved_by", i), s.Modes[i].ProvedBy)
	}
	for path, value := range s.Confidence {
		d.choice("confidence."+path, value, []string{"sdk", "docs", "secondary", "unread"}, nil)
	}
}

func (d *specReader) link(path, s string) {
	if u, err := url.Parse(s); err != nil || u.Scheme != "https" || u.Host == "" {
		d.at(path, "is not an https address")
	}
}

func (d *specReader) path(where, path string) {
	if path == "$" {
		return
	}
	if strings.Count(path, ".") >= jsonspan.MaxDepth/2 {
		d.at(where, "is too deep")
	}
	for name := range strings.SplitSeq(path, ".") {
		if name == "" || name == "*" || name == "$" || strings.ContainsAny(name, "[]\"") {
			d.at(where, "%q is not a JSON path of names joined by dots", path)
			return
		}
	}
}

func (d *specReader) fields(where string, fields []Field, s *Spec, times bool) {
	for i := range fields {
		d.field(fmt.Sprintf("%s[%d]", where, i), &fields[i], s, times)
	}
}

func (d *specReader) field(where string, f *Field, s *Spec, times bool) {
	given := 0
	for _, is := range []bool{f.Header != "", f.JSON != "", f.Parent != "", f.Envelope != "", f.Form != "", f.Query != "", f.Literal != "", len(f.Join) > 0} {
		if is {
			given++
		}
	}
	if given != 1 {
		d.at(where, "is one of header, json, parent, envelope, form, query, literal, join")
		return
	}
	switch {
	case f.Header != "":
		d.headerName(where+".header", f.Header)
	case f.JSON != "":
		d.path(where+".json", f.JSON)
	case f.Envelope != "":
		d.path(where+".envelope", f.Envelope)
		if s.Split.JSON == "" {
			d.at(where+".envelope", "is valid only with split; say json")
		}
	case f.Parent != "":
		d.path(where+".parent", f.Parent)
		if !strings.Contains(s.Split.JSON, nestedMark) {
			d.at(where+".parent", "is valid only with a split of several arrays; say envelope")
		}
	case f.Form != "" && !s.Body.Form && !s.Body.Multipart:
		d.at(where+".form", "needs body.form: true")
	}
	if f.PlusIndex && (s.Sequence.Kind == "time" || s.Split == (SplitSpec{}) || !strings.HasSuffix(where, ".number")) {
		d.at(where+".plus_index", "is valid only with the number of a batch's events that is no time")
	}
	if f.If != "" {
		d.path(where+".if", f.If)
	}
	if f.With != "" && len(f.Join) == 0 {
		d.at(where+".with", "is valid only with join")
	}
	if times {
		if f.Unit == "" {
			d.at(where+".unit", "is required (s, ms, us, ns, rfc3339, datetime)")
		} else {
			d.choice(where+".unit", f.Unit, []string{"s", "ms", "us", "ns", "rfc3339", "datetime"}, nil)
		}
	} else if f.Unit != "" {
		d.at(where+".unit", "is valid only with times")
	}
	for i := range f.Join {
		d.field(fmt.Sprintf("%s.join[%d]", where, i), &f.Join[i], s, false)
	}
}

func (d *specReader) sequence(s *Spec) {
	q := &s.Sequence
	d.choice("sequence.kind", q.Kind, []string{"none", "contiguous", "version", "time"}, nil)
	if (q.Kind == "none") != (len(q.Candidates) == 0) {
		d.at("sequence", "kind and candidates go together")
	}
	for i := range q.Candidates {
		where := fmt.Sprintf("sequence.candidates[%d]", i)
		d.field(where+".key", &q.Candidates[i].Key, s, false)
		d.field(where+".number", &q.Candidates[i].Number, s, q.Kind == "time")
		d.sequenceSigned(where, &q.Candidates[i], s)
	}
}

// sequenceSigned refuses a sequence that anyone who has seen one delivery could change. The number
// decides which event is newer. A header or a part of the body that the signature does not cover
// can be changed while the signature stays valid. If the event's id is not signed either, that
// creates another event; under a signed id it is a conflict. With a credential or a token, which
// authenticates only the origin, the check would be useless, because anyone who has it can write
// the whole body.
func (d *specReader) sequenceSigned(where string, c *SequenceCandidate, s *Spec) {
	if !s.Verify.signs() && schemes.Table()[s.Verify.Family] == nil || s.Verify.Authenticates == "origin" {
		return
	}
	name := s.uncoveredHeader(&c.Number)
	switch {
	case name != "":
		d.at(where+".number", "reads "+name+", which the signature does not cover (verify.signed): take the number from what is signed, or leave sequence out")
	case !s.covered(&c.Number) && !s.idSigned() && !s.transmitted():
		d.at(where+".number", "is not covered by the signature, and neither is the event's id (verify.signed): take the number from what is signed, or leave sequence out")
	}
	if name := s.uncoveredHeader(&c.Key); name != "" {
		d.at(where+".key", "reads "+name+", which the signature does not cover (verify.signed): take the key from what is signed, or leave sequence out")
	}
}

// uncoveredHeader names a header or a query parameter that the field reads and that the signature
// does not cover. It returns an empty string if there is none.
func (s *Spec) uncoveredHeader(f *Field) string {
	for i := range f.Join {
		if name := s.uncoveredHeader(&f.Join[i]); name != "" {
			return name
		}
	}
	switch {
	case f.Header != "" && !s.covered(f):
		return "header " + f.Header
	case f.Query != "" && !s.covered(f):
		return "query parameter " + f.Query
	}
	return ""
}

func (d *specReader) windows(w *WindowsSpec) {
	if w.Failures < 0 {
		d.at("windows.failures", "must not be negative")
	}
	for name, window := range map[string]WindowSpec{"retry": w.Retry, "resend": w.Resend, "list": w.List} {
		if window.For == Off {
			d.at("windows."+name+".for", "leave it out where there is none")
		}
		if window.For > 0 && window.Source == "" && window.Note == "" {
			d.at("windows."+name, "needs the source of the figure")
		}
		if window.Source != "" {
			d.link("windows."+name+".source", window.Source)
		}
	}
}

func (d *specReader) settings(settings []SettingSpec) {
	seen := map[string]bool{}
	for i := range settings {
		s := &settings[i]
		where := fmt.Sprintf("settings[%d]", i)
		switch {
		case s.Name == "" || seen[s.Name]:
			d.at(where+".name", "is required, once each")
		case s.About == "":
			d.at(where+".about", "is required: what it is and where it is found")
		case s.Required && len(s.Default) > 0:
			d.at(where+".default", "does not go with required: true")
		case s.Required && s.Setup != "":
			d.at(where+".setup", "does not go with required: true")
		case s.Setup != "" && len(s.Example) == 0 && !s.Secret:
			d.at(where+".example", "is required beside setup")
		}
		seen[s.Name] = true
	}
}
