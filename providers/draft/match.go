package draft

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/oncegate/oncegate/providers"
)

// fit turns a match into the verify section of a provider.
func (m *match) fit() Fit {
	c := m.carrier
	f := Fit{Covers: "origin", covered: map[string]bool{}}
	var at *stamp
	var signed []string
	for i := range m.pieces {
		p := &m.pieces[i]
		switch {
		case p.body:
			f.Covers = "body"
		case p.field && f.Covers == "origin":
			f.Covers = "part"
		}
		if p.stamp != nil && at == nil && (p.part.Word == "timestamp" || p.stamp.from == "json" || p.stamp.from == "form") {
			at = p.stamp
		}
		for _, name := range p.part.Header {
			f.covered[name] = true
		}
		for _, one := range p.all() {
			f.address = f.address || one.Word == "url" || one.Word == "path"
			signed = append(signed, written(&one))
		}
	}
	if at != nil && (at.from == "json" || at.from == "form") && f.Covers == "body" {
		at = nil // the member may be the event's time, which is older at each retry
	}
	f.SignsTime = at != nil
	if at != nil && at.from == "header" {
		f.time = at.name
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	family := "hmac"
	if m.public != nil {
		family = "signature"
	}
	line("verify:")
	line("  family: %s", family)
	line("  authenticates: %s # %s", f.Covers, worth(f.Covers))
	line("  signature:")
	switch c.from {
	case "header", "numbered-headers":
		if c.from != "header" {
			line("    from: numbered-headers")
		}
		line("    headers: [%s]", c.name)
	default:
		line("    from: %s", c.from)
		line("    path: %s", quoted(c.name))
	}
	if c.format != "value" {
		line("    format: %s", c.format)
		line("    separator: %s", quoted(c.separator))
	}
	if c.format == "list" || c.format == "groups" {
		line("    assign: %s", quoted(c.assign))
		if c.stampName != "" {
			line("    timestamp_label: %s", quoted(c.stampName))
		}
	}
	if c.prefix != "" {
		line("    prefix: %s", quoted(c.prefix))
	}
	if c.suffix != "" {
		line("    suffix: %s", quoted(c.suffix))
	}
	if c.repeats && c.format == "value" && c.from == "header" {
		line("    repeats: true")
	}
	scheme := []string{"algorithm: " + m.alg, "encoding: " + c.encoding}
	if c.label != "" {
		scheme = append([]string{"label: " + quoted(c.label)}, scheme...)
	}
	switch {
	case m.public != nil:
		if m.public.prefix != "" {
			scheme = append(scheme, "key_prefix: "+quoted(m.public.prefix))
		}
		scheme = append(scheme, "key: "+m.public.how)
	default:
		if m.key.prefix != "" {
			scheme = append(scheme, "key_prefix: "+quoted(m.key.prefix))
		}
		if m.key.how != "text" {
			scheme = append(scheme, "key: "+m.key.how)
		}
	}
	line("    schemes:")
	line("      - { %s }", strings.Join(scheme, ", "))
	if m.key != nil && m.key.selectBy != "" {
		line("  key: { select: header, name: %s }", m.key.selectBy)
		f.Notes = append(f.Notes, "the secret is written ID=KEY, and header "+m.key.selectBy+" says which one counts")
	}
	line("  signed: [%s]", strings.Join(signed, ", "))
	if at != nil {
		line("  timestamp:")
		line("    from: %s", at.from)
		switch at.from {
		case "header":
			line("    header: %s", at.name)
		case "json", "form":
			line("    path: %s", quoted(at.name))
		}
		line("    unit: %s", at.unit)
		line("    # Write past: 300s once the sender documents that each try is signed anew: an old capture")
		line("    # is then refused, and a retry under its first time would be as well.")
		line("    past: none")
		line("    future: 300s")
	}
	f.verify = b.String()
	how := "key: "
	if m.public != nil {
		how += m.public.text
	} else {
		how += m.key.text
	}
	f.Text = fmt.Sprintf("%s of %s, %s; %s", strings.ToUpper(m.alg), spoken(m.pieces), c.text(), how)
	if slices.ContainsFunc(m.pieces, func(p piece) bool { return p.body && len(p.value) == 0 }) {
		f.Notes = append(f.Notes, "the captured request has no body, so that this body is signed is not proved: draft again from a request with one")
	}
	if c.unclear && strings.HasPrefix(c.encoding, "base64") {
		f.Notes = append(f.Notes, "the signature has no character that tells base64 from base64url: compare the encoding with the documentation, or with a second capture")
	}
	if f.Covers != "body" {
		f.Notes = append(f.Notes, "the signature does not cover the whole content: "+worth(f.Covers))
	}
	f.score = f.rank(m)
	return f
}

// rank scores a method by its safety.
func (f *Fit) rank(m *match) int {
	score := map[string]int{"body": 300, "part": 200, "origin": 100}[f.Covers]
	if f.SignsTime {
		score += 40
	}
	switch {
	case m.public != nil:
		score += 10
	case strings.HasSuffix(m.alg, "sha1"):
	case strings.HasPrefix(m.alg, "hmac-"):
		score += 10
	default:
		score += 5
	}
	return score + min(len(f.covered), 5)
}

func worth(covers string) string {
	switch covers {
	case "body":
		return "nobody without the secret can change the content"
	case "part":
		return "only the members among the signed parts cannot be changed"
	}
	return "it says who sent the request, not what is in it"
}

func quoted(text string) string { return strconv.Quote(text) }

// written returns a part as YAML.
func written(p *providers.Part) string {
	switch {
	case p.Word != "":
		return p.Word
	case p.Literal != "":
		return "{ literal: " + quoted(p.Literal) + " }"
	case len(p.Header) > 0:
		return "{ header: " + p.Header[0] + " }"
	case p.Form != "":
		return "{ form: " + quoted(p.Form) + " }"
	case p.Query != "":
		return "{ query: " + quoted(p.Query) + " }"
	}
	return "{ json: " + quoted(p.JSON) + " }"
}

// spoken describes the signed parts in words.
func spoken(pieces []piece) string {
	var out []string
	for i := range pieces {
		for _, p := range pieces[i].all() {
			switch {
			case p.Word == "form-sorted":
				out = append(out, "sorted form")
			case p.Word == "timestamp":
				out = append(out, "time")
			case p.Word != "":
				out = append(out, p.Word)
			case p.Literal != "":
				out = append(out, strconv.Quote(p.Literal))
			case len(p.Header) > 0:
				out = append(out, p.Header[0])
			default:
				out = append(out, p.Form+p.Query+p.JSON)
			}
		}
	}
	return strings.Join(out, " + ")
}

// all returns the parts of the YAML that a piece represents.
func (p *piece) all() []providers.Part { return append([]providers.Part{p.part}, p.more...) }
