package providers

import (
	"slices"
	"strings"
)

// schemeChanges try other signing methods than the provider's own.
func (s *search) schemeChanges() []change {
	p := s.base.p
	if !p.spec.Verify.signs() || len(p.schemes) == 0 {
		return s.tokenChanges()
	}
	var out []change
	own := p.spec.Verify.Signature.Schemes[0]
	if !strings.HasPrefix(own.Algorithm, "hmac-") {
		return nil
	}
	for _, algorithm := range []string{own.Algorithm, "hmac-sha256", "hmac-sha1", "hmac-sha512", "hmac-sha384"} {
		for _, encoding := range []string{own.Encoding, "hex", "base64-lenient", "base64url"} {
			var differs []string
			if algorithm != own.Algorithm {
				differs = append(differs, "made with "+upper(algorithm)+", not "+upper(own.Algorithm))
			}
			if encoding != own.Encoding && !(encoding == "base64-lenient" && strings.HasPrefix(own.Encoding, "base64")) {
				differs = append(differs, "written in "+strings.TrimSuffix(encoding, "-lenient")+", not "+strings.TrimSuffix(own.Encoding, "-lenient"))
			} else if encoding == "base64-lenient" && own.Encoding == "base64" {
				differs = append(differs, "written in base64 without its padding")
			}
			if len(differs) == 0 {
				continue
			}
			out = append(out, change{MistakeScheme, "the signature is " + strings.Join(differs, " and "), 0, func(t *trial) bool {
				t.p = t.p.variant(func(s *Spec) {
					schemes := slices.Clone(s.Verify.Signature.Schemes)
					schemes[0].Algorithm, schemes[0].Encoding = algorithm, encoding
					s.Verify.Signature.Schemes = schemes
				})
				return true
			}})
		}
	}
	return append(out, partChanges(p)...)
}

// partChanges try other parts that signatures usually cover.
func partChanges(p *Provider) []change {
	var out []change
	add := func(text string, change0 func(s *Spec)) {
		out = append(out, change{MistakeScheme, text, 0, func(t *trial) bool {
			t.p = t.p.variant(change0)
			return true
		}})
	}
	parts := func(words ...string) []Part {
		var list []Part
		for _, word := range words {
			if word == "." {
				list = append(list, Part{Literal: "."})
			} else {
				list = append(list, Part{Word: word})
			}
		}
		return list
	}
	signs := func(list []Part) func(s *Spec) { return func(s *Spec) { s.Verify.Signed = list } }
	if len(p.spec.Verify.Signed) > 1 {
		add("the signature covers the body alone", func(s *Spec) {
			s.Verify.Signed = parts("body")
			if s.Verify.Timestamp.From == "header" {
				s.Verify.Timestamp = TimestampSpec{From: "none", Past: Off, Future: Off}
			}
		})
	}
	if from := p.spec.Verify.Timestamp.From; from != "" && from != "none" {
		add("the signature covers time, dot and body, and nothing else", signs(parts("timestamp", ".", "body")))
		add("the signature covers time and body, with nothing between them", signs(parts("timestamp", "body")))
		add("the signature covers body and then time", signs(parts("body", "timestamp")))
		for _, unit := range []string{"s", "ms", "us", "ns", "rfc3339"} {
			if unit != p.spec.Verify.Timestamp.Unit {
				add("the signed time is in "+unitName(unit)+", not in "+unitName(p.spec.Verify.Timestamp.Unit), func(s *Spec) { s.Verify.Timestamp.Unit = unit })
			}
		}
	} else {
		add("the signature covers address and body", signs(parts("url", "body")))
	}
	return out
}

func upper(algorithm string) string { return strings.ToUpper(algorithm) }
