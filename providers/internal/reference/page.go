package reference

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/yamltree"
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
	if !p.IsMessage() { // a broker takes no answer
		b.answers(s)
	}
	b.retention(s)
	b.reconcile(s)
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
	"": "is used without decoding, even if it looks encoded", "text": "is used without decoding, even if it looks encoded",
	"hex": "is decoded from hex", "base64": "is decoded from base64", "base64-lenient": "is decoded from base64",
	"after-colon": "is the part after its first colon", "nfkd": "is text, in the Unicode normal form NFKD", "spki": "is a public key in base64", "pem": "is a public key in PEM",
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
	"origin": "**A valid proof identifies the sender but does not protect the content.**",
}

func (b *page) verified(p *providers.Provider) {
	s := p.Spec()
	b.heading("Which parts are verified")
	if p.IsMessage() {
		b.item("None: the connection to the broker proves who sends, and the broker delivers a message as it got it.")
		return
	}
	for _, v := range ways(s) {
		if v.name != "" {
			b.item("Mode `%s`, %s: %s.", v.name, when(s, v.name), proofOf(v.spec))
			continue
		}
		b.item("%s.", proofOf(v.spec))
	}
	for _, way := range p.ProofOf() {
		of := "Proved by "
		if way.Mode != providers.DefaultMode {
			of = "Mode `" + way.Mode + "` is proved by "
		}
		b.item("%s%s.", of, providers.ProofText(way.By))
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
		b.item("**The event id is not covered**: an attacker who has one delivery could send it under another id. Oncegate marks the same body under a second id as a suspected replay.")
	}
	if unsigned := p.TypeUnsigned(); len(unsigned) > 0 {
		b.item("**The type is not covered** where it is read from %s: an attacker who has one delivery could send it as another type. Let effects that matter read the payload.", strings.Join(unsigned, " or "))
	}
	for i := range s.Handshakes {
		h := &s.Handshakes[i]
		b.item("Handshake \"%s\" (%s): %s.", h.Name, h.Method, shakes[h.Verify])
	}
}

var shakes = map[string]string{
	"signature": "answered if its signature is valid", "query-signature": "answered if the signature over the query is valid",
	"token": "answered if its token is known", "none": "answered without a proof, because the sender sends none",
	"open":             "answered without a proof, because the sender sends none; nothing is recorded",
	"bootstrap":        "answered; the secret it brings is shown to you and trusted by nothing until you add it",
	"bootstrap-signed": "answered when it is signed with the secret it brings, which is shown to you and not trusted until you add it",
}

func when(s *providers.Spec, name string) string {
	var out []string
	for i := range s.Modes {
		for _, m := range s.Modes[i].When {
			if s.Modes[i].Name != name {
				continue
			}
			text := "`" + m.Header + "` is present"
			if m.Absent {
				text = "`" + m.Header + "` is missing"
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
	switch {
	case t.Unsigned:
		return "The signature does not cover the time, so Oncegate ignores it."
	case t.From == "none" && slices.Contains(tokens, v.Family):
		return "The times come from the token."
	case t.From == "none":
		return "No time is signed. Only its id identifies an old delivery."
	}
	text := "The time may be " + atMost(t.Past) + " before the receipt and " + atMost(t.Future) + " after it."
	if t.SDK != "" {
		text += " Elsewhere: " + t.SDK + "."
	}
	return text
}

func atMost(d providers.Duration) string {
	if d == providers.Off {
		return "any time"
	}
	return "up to " + side(d)
}

func (b *page) events(p *providers.Provider) {
	s := p.Spec()
	b.heading("Events")
	if split := s.Split.JSON; split != "" {
		b.item("One delivery contains several events (`%s`). Oncegate records all of them or none. An empty list is valid.", split)
	}
	if s.Identity.Mode == "level" {
		b.item("Event id: none. Every verified delivery is a new event; let effects fetch the state.")
	} else {
		b.item("Event id: %s.", identity(s))
	}
	if s.Identity.UniqueSource != "" {
		b.item("The sender documents its parts as unique together: <%s>.", s.Identity.UniqueSource)
	}
	if s.Identity.Mode != "level" && s.Identity.Mode != "digest" && s.Verify.Family != "operation" {
		b.item("An event without an id is known by %s.", digest(s))
	}
	for i := range s.Identity.LevelWhen {
		b.item("Where %s, every delivery is a new event, because equal payloads are different events.", condition(&s.Identity.LevelWhen[i]))
	}
	if len(s.Type) > 0 {
		b.item("Type: %s.", strings.Join(places(s.Type), ", else "))
	}
	if n := len(s.Types.Known); n > 0 {
		b.item("The sender has [%d types](%s). `oncegate config check` warns of a route with a type that is not among them.", n, s.Types.Source)
	}
	for _, c := range s.Sequence.Candidates {
		b.item("Order (%s): %s within %s.", s.Sequence.Kind, place(&c.Number), place(&c.Key))
	}
	if len(s.Volatile) > 0 {
		b.item("Not compared, because the sender changes them between tries: `%s`.", strings.Join(s.Volatile, "`, `"))
	}
	b.item("Body: at most %d KiB.", int64(s.Request.MaxBody)>>10)
}

// condition describes a condition in words.
func condition(m *providers.MatchSpec) string {
	what := place(&providers.Field{Header: m.Header, JSON: m.JSON, Form: m.Form, Query: m.Query})
	switch {
	case m.Absent:
		return what + " is missing"
	case m.Equals != "":
		return what + " is `" + m.Equals + "`"
	}
	return what + " is present"
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
	b.heading("How long the sender delivers an event again")
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
		b.item("Oncegate holds an event that is older than the kept ids for a person.")
	}
}

// reconcile describes how the sender is asked which events there were.
func (b *page) reconcile(s *providers.Spec) {
	r := &s.Reconcile
	if !r.Present() {
		return
	}
	b.heading("Events that never arrived")
	then := "Oncegate admits those that are missing"
	if r.Redelivers() {
		then = "Oncegate asks for one more delivery of those that are missing (<" + r.Redeliver.Docs + ">)"
	}
	b.item("`oncegate reconcile` asks `%s` which events there were, <%s>. %s.", r.Base, r.Docs, then)
	b.item("`reconcile.credential`: %s.", r.Auth.About)
	for i := range r.Params {
		p := &r.Params[i]
		b.item("`reconcile.params.%s`: %s, such as `%s`.", p.Name, p.About, p.Example)
	}
	if r.Rate.Requests > 0 {
		text := fmt.Sprintf("At most %d requests in %s", r.Rate.Requests, yamltree.FormatDuration(time.Duration(r.Rate.Per)))
		if r.Rate.Note != "" {
			text += " (" + r.Rate.Note + ")"
		}
		if r.Rate.Source != "" {
			text += ", <" + r.Rate.Source + ">"
		}
		b.item("%s.", text)
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
	"sdk": "taken from the sender's code", "docs": "taken from the documentation",
	"secondary": "known from a third party", "unread": "not documented by the sender; the safe value is assumed",
}
