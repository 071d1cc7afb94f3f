package reference

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/providers"
)

// Page returns the page of one provider: how to set it up, what verification covers, how
// Oncegate answers, and how long the provider redelivers.
func Page(name string, p *providers.Provider) string {
	s := p.Spec()
	b := &page{}
	b.line("# " + s.Title)
	b.line("")
	b.line("<!-- generated from the catalogue by go generate; do not edit -->")
	b.line("")
	read := ""
	if s.Checked != "" {
		read = ", compared in " + s.Checked
	}
	b.line("Provider `" + name + "`. Documentation: <" + s.Docs + ">" + read)
	b.setUp(name, p)
	b.verified(p)
	b.events(p)
	b.answers(s)
	b.retention(s)
	b.confidence(s)
	return b.String()
}

type page struct{ strings.Builder }

func (b *page) line(text string)                { b.WriteString(text + "\n") }
func (b *page) item(format string, args ...any) { b.line("- " + fmt.Sprintf(format, args...)) }
func (b *page) heading(text string)             { b.line("\n## " + text + "\n") }

// keys describes how a secret is decoded, for each way of verification.
func keys(s *providers.Spec) []string {
	var out []string
	for _, v := range ways(s) {
		for _, c := range v.spec.Signature.Schemes {
			text := decoding[c.Key]
			if c.KeyPrefix != "" {
				text = "`" + c.KeyPrefix + "` and what follows it, which is " + strings.TrimPrefix(text, "is ")
			}
			if v.spec.Key.Select == "header" {
				text += ", written `id=key` with the id that `" + v.spec.Key.Name + "` names"
			}
			out = append(out, text)
		}
		for _, c := range v.spec.Credential {
			if c.Scheme == "basic" {
				out = append(out, "`user:password`, for Basic authentication")
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

var decoding = map[string]string{
	"": "is used unchanged, even if it looks encoded", "text": "is used unchanged, even if it looks encoded",
	"hex": "is hex, and decoded", "base64": "is base64, and decoded", "base64-lenient": "is base64, and decoded",
	"after-colon": "is used from behind its first colon on", "nfkd": "is text, in the Unicode normal form NFKD", "spki": "is a public key in base64", "pem": "is a public key in PEM",
}

type way struct {
	name string
	spec *providers.VerifySpec
}

func ways(s *providers.Spec) []way {
	out := []way{{"", &s.Verify}}
	for i := range s.Modes {
		out = append(out, way{s.Modes[i].Name, &s.Modes[i].Verify})
	}
	return out
}

var covers = map[string]string{
	"body":   "A valid proof covers the body.",
	"part":   "**A valid proof covers a part of the event only**; the notes above say which.",
	"origin": "**A valid proof says who sent the request and nothing about its content.**",
}

func (b *page) verified(p *providers.Provider) {
	s := p.Spec()
	b.heading("Which parts are verified")
	for _, v := range ways(s) {
		if v.name != "" {
			b.item("Mode `%s`, %s: %s.", v.name, when(s, v.name), proofOf(v.spec))
			continue
		}
		b.item("%s.", proofOf(v.spec))
	}
	b.item("%s", covers[s.Verify.Authenticates])
	for _, v := range ways(s) {
		of := ""
		if v.name != "" {
			of = "Mode `" + v.name + "`: "
		}
		b.item("%s%s", of, timeOf(v.spec))
	}
	if p.IDUnsigned() {
		b.item("**The event id is not covered**: a holder of one delivery could present it under another id. Oncegate marks the same body under a second id as a suspected replay.")
	}
	for i := range s.Handshakes {
		h := &s.Handshakes[i]
		b.item("Handshake \"%s\" (%s): %s.", h.Name, h.Method, shakes[h.Verify])
	}
}

var shakes = map[string]string{
	"signature": "answered when its signature is valid", "query-signature": "answered when the signature over the query is valid",
	"token": "answered when its token is known", "none": "answered without a proof, which the sender does not give",
	"open":             "answered without a proof, which the sender does not give; nothing is recorded",
	"bootstrap":        "answered; the secret it brings is shown to you and trusted by nothing until you add it",
	"bootstrap-signed": "answered when it is signed with the secret it brings, which is shown to you and trusted by nothing until you add it",
}

func when(s *providers.Spec, name string) string {
	var out []string
	for i := range s.Modes {
		for _, m := range s.Modes[i].When {
			if s.Modes[i].Name != name {
				continue
			}
			text := "`" + m.Header + "` is there"
			if m.Absent {
				text = "`" + m.Header + "` is not there"
			} else if m.Equals != "" {
				text = "`" + m.Header + "` is `" + m.Equals + "`"
			}
			out = append(out, text)
		}
	}
	return "when " + strings.Join(out, " and ")
}

func proofOf(v *providers.VerifySpec) string {
	var algorithms []string
	for _, c := range v.Signature.Schemes {
		algorithms = append(algorithms, c.Algorithm+" ("+c.Encoding+")")
	}
	where := ""
	if len(v.Signature.Headers) > 0 {
		where = " in `" + strings.Join(v.Signature.Headers, "`, `") + "`"
	} else if v.Signature.Path != "" {
		where = " in " + v.Signature.From + " `" + v.Signature.Path + "`"
	}
	switch {
	case len(algorithms) > 0:
		var parts []string
		for i := range v.Signed {
			parts = append(parts, partOf(&v.Signed[i]))
		}
		return "Signature " + strings.Join(algorithms, " or ") + where + " over " + strings.Join(parts, " + ")
	case len(v.Credential) > 0:
		var out []string
		for _, c := range v.Credential {
			switch c.Scheme {
			case "header":
				out = append(out, "the header `"+c.Header+"`")
			case "query":
				out = append(out, "the parameter `"+c.Name+"` of the address")
			default:
				out = append(out, c.Scheme+" authentication")
			}
		}
		return "A shared credential: " + strings.Join(out, ", or ")
	case v.Family == "none":
		return "Nothing"
	}
	return "Scheme `" + v.Family + "`" + where
}

func partOf(p *providers.Part) string {
	switch {
	case p.Word != "":
		return p.Word
	case p.Literal != "":
		return "`" + p.Literal + "`"
	case len(p.Header) > 0:
		return "header `" + strings.Join(p.Header, "` or `") + "`"
	case p.JSON != "":
		return "JSON `" + p.JSON + "`"
	case p.Form != "":
		return "form `" + p.Form + "`"
	}
	return "query `" + p.Query + "`"
}

func timeOf(v *providers.VerifySpec) string {
	t := &v.Timestamp
	text := "The time may lie "
	switch {
	case t.Unsigned:
		return "The time that is sent is not signed, and is believed by nobody."
	case t.From == "none" && slices.Contains(tokens, v.Family):
		return "The times come from the token."
	case t.From == "none":
		return "No time is signed: an old delivery is known by its id alone."
	}
	text += side(t.Past) + " before the receipt and " + side(t.Future) + " after it."
	if t.SDK != "" {
		text += " Elsewhere: " + t.SDK + "."
	}
	return text
}

func (b *page) events(p *providers.Provider) {
	s := p.Spec()
	b.heading("Events")
	if split := s.Split.JSON; split != "" {
		b.item("One delivery carries several events (`%s`): all are recorded or none. An empty list is legal.", split)
	}
	if s.Identity.Mode == "level" {
		b.item("Event id: none. Every verified delivery is a new event; let effects fetch the state.")
	} else {
		b.item("Event id: %s.", identity(s))
	}
	if s.Identity.UniqueSource != "" {
		b.item("Its parts are documented to be unique together: <%s>.", s.Identity.UniqueSource)
	}
	if s.Identity.Mode != "level" && s.Identity.Mode != "digest" && s.Verify.Family != "operation" {
		b.item("An event without an id is known by %s.", digest(s))
	}
	for i := range s.Identity.LevelWhen {
		b.item("Where %s, every delivery is an event of its own: equal payloads are different events.", condition(&s.Identity.LevelWhen[i]))
	}
	if len(s.Type) > 0 {
		b.item("Type: %s.", strings.Join(places(s.Type), ", else "))
	}
	for _, c := range s.Sequence.Candidates {
		b.item("Order (%s): %s within %s.", s.Sequence.Kind, place(&c.Number), place(&c.Key))
	}
	if len(s.Volatile) > 0 {
		b.item("Changed by the sender from try to try, and so not compared: `%s`.", strings.Join(s.Volatile, "`, `"))
	}
	b.item("Body: at most %d KiB.", int64(s.Request.MaxBody)>>10)
}

// condition describes a condition in words.
func condition(m *providers.MatchSpec) string {
	what := place(&providers.Field{Header: m.Header, JSON: m.JSON, Form: m.Form, Query: m.Query})
	switch {
	case m.Absent:
		return what + " is not there"
	case m.Equals != "":
		return what + " is `" + m.Equals + "`"
	}
	return what + " is there"
}

func places(fields []providers.Field) []string {
	out := make([]string, len(fields))
	for i := range fields {
		out[i] = place(&fields[i])
	}
	return out
}

func (b *page) answers(s *providers.Spec) {
	b.heading("Answers")
	within := ""
	if s.Windows.AckWithin > 0 {
		within = ", within " + time.Duration(s.Windows.AckWithin).String()
	}
	b.item("Accepted: %s%s.", answer(&s.Ack), within)
	b.item("Not authentic: %s.", answer(&s.Reject))
}

func answer(a *providers.AnswerSpec) string {
	text := fmt.Sprintf("%d", a.Status)
	if a.Empty || a.Body == "" {
		return text + ", empty"
	}
	return text + " `" + a.Body + "`"
}

func (b *page) retention(s *providers.Spec) {
	b.heading("How long it delivers again")
	for _, w := range []struct {
		name string
		providers.WindowSpec
	}{{"By itself", s.Windows.Retry}, {"When a person asks for it", s.Windows.Resend}, {"Listed by its API", s.Windows.List}} {
		if w.For == 0 {
			continue
		}
		text := w.name + ": " + span(w.For)
		if w.Note != "" {
			text += " (" + w.Note + ")"
		}
		if w.Source != "" {
			text += ", <" + w.Source + ">"
		}
		b.item("%s.", text)
	}
	b.item("Ids are kept at least %s.", span(s.Windows.Floor))
	if s.Windows.Age != "" {
		b.item("An event that says it is older than its source keeps ids is held for a person.")
	}
}

func span(d providers.Duration) string {
	if time.Duration(d) < 2*time.Hour {
		return strings.TrimSuffix(time.Duration(d).String(), "0s")
	}
	return days(d)
}

func (b *page) confidence(s *providers.Spec) {
	if len(s.Confidence) == 0 {
		return
	}
	b.heading("Facts that are less certain")
	for _, path := range slices.Sorted(maps.Keys(s.Confidence)) {
		b.item("`%s`: %s.", path, known[s.Confidence[path]])
	}
}

var known = map[string]string{
	"sdk": "read in the sender's own code", "docs": "read in the documentation",
	"secondary": "known from a third party", "unread": "not read anywhere that binds the sender; the safe side is taken",
}
