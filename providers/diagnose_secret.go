package providers

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// rewrite corrects one way in which a secret is entered wrongly.
type rewrite struct {
	text string
	undo func(secret string) string // returns the secret unchanged if it does not apply
}

var (
	assignment = regexp.MustCompile(`^(?:export )?[A-Za-z_][A-Za-z0-9_]*=`)
	anyPrefix  = regexp.MustCompile(`^[A-Za-z]{2,10}[_-]`)
)

func rewrites(prefix string) []rewrite {
	out := []rewrite{
		{"the secret ends in a line break that is not part of it", func(s string) string { return strings.TrimRight(s, "\r\n") }},
		{"the secret has white space or a byte order mark around it", func(s string) string {
			return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(s), "\ufeff"))
		}},
		{"the secret has quotation marks around it that are not part of it", unquoted},
		{"the secret is configured together with the name of its variable", func(s string) string { return unquoted(assignment.ReplaceAllString(s, "")) }},
		{"the secret has Bearer or Basic before it that is not part of it", func(s string) string {
			return strings.TrimPrefix(strings.TrimPrefix(s, "Bearer "), "Basic ")
		}},
		{"the secret has white space inside it that is not part of it", func(s string) string { return strings.Join(strings.Fields(s), "") }},
		{"the secret is percent-encoded", func(s string) string {
			if plain, err := url.PathUnescape(s); err == nil {
				return plain
			}
			return s
		}},
		{"the secret has HTML entities where it has characters", html.UnescapeString},
		{"the sender signs with HTML entities in place of characters of the secret", html.EscapeString},
		{`the secret has \n written out where it has line breaks`, func(s string) string { return strings.ReplaceAll(s, `\n`, "\n") }},
		{"the sender signs with a line break at the end of its secret: enter the secret there again without it", func(s string) string { return s + "\n" }},
		{"the secret is in capitals where it has small letters", strings.ToLower},
		{"the secret is in small letters where it has capitals", strings.ToUpper},
	}
	if prefix != "" {
		out = append(out, rewrite{"the secret lacks its prefix " + prefix, func(s string) string { return prefix + strings.TrimPrefix(s, prefix) }})
	}
	return out
}

func unquoted(s string) string {
	s = strings.TrimSpace(s)
	if len(s) >= 2 && strings.ContainsRune("\"'`", rune(s[0])) && s[0] == s[len(s)-1] {
		return s[1 : len(s)-1]
	}
	return s
}

// secretChanges correct mistakes in entering and decoding secrets.
func (s *search) secretChanges() []change {
	out := []change{{MistakeExpired, s.expired(), 0, func(t *trial) bool {
		return t.replace(func(secret *Secret) bool {
			ended := over(secret, t.req.ReceivedAt) && len(secret.Value) > 0
			secret.NotAfter = time.Time{}
			return ended
		})
	}}}
	p := s.base.p
	for _, r := range rewrites(p.keyPrefix()) {
		out = append(out, change{MistakeSecret, r.text, 0, func(t *trial) bool {
			return t.replace(func(secret *Secret) bool {
				undone := r.undo(string(secret.Value))
				changed := undone != string(secret.Value) && undone != "" //secretcompare:ok both are the operator's own
				secret.Value = []byte(undone)
				return changed
			})
		}})
	}
	return append(out, decodings(p)...)
}

// expired names the expired secrets.
func (s *search) expired() string {
	var ended []string
	for i := range s.base.secrets {
		if secret := &s.base.secrets[i]; over(secret, s.base.req.ReceivedAt) {
			ended = append(ended, fmt.Sprintf("%s (until %s)", secret.Name, secret.NotAfter.UTC().Format(time.RFC3339)))
		}
	}
	return "it is signed with a secret that is no longer accepted: " + strings.Join(ended, " or ")
}

// replace applies f to a copy of every secret and keeps the changed ones.
func (t *trial) replace(f func(s *Secret) bool) bool {
	var out []Secret
	for i := range t.secrets {
		secret := t.secrets[i]
		secret.Value = bytes.Clone(secret.Value)
		if f(&secret) {
			out = append(out, secret)
		}
	}
	t.secrets = out
	return len(out) > 0
}

func (p *Provider) keyPrefix() string {
	for i := range p.schemes {
		if p.schemes[i].KeyPrefix != "" {
			return p.schemes[i].KeyPrefix
		}
	}
	return ""
}

// decoding is one way to derive a key from a secret.
type decoding struct {
	text   string
	decode func(s string) ([]byte, bool)
}

func knownDecodings() []decoding {
	decode64 := func(s string) ([]byte, bool) {
		s = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(s, "="))
		key, err := base64.RawStdEncoding.DecodeString(s)
		return key, err == nil
	}
	return []decoding{
		{"the secret as text, as it is written", func(s string) ([]byte, bool) { return []byte(s), true }},
		{"the secret as text, without its prefix", func(s string) ([]byte, bool) {
			rest := anyPrefix.ReplaceAllString(s, "")
			return []byte(rest), rest != s
		}},
		{"the bytes that the secret is the base64 of", decode64},
		{"the bytes that the secret, without its prefix, is the base64 of", func(s string) ([]byte, bool) {
			rest := anyPrefix.ReplaceAllString(s, "")
			key, ok := decode64(rest)
			return key, ok && rest != s
		}},
		{"the bytes that the secret is the hex of", func(s string) ([]byte, bool) {
			key, err := hex.DecodeString(s)
			return key, err == nil
		}},
		{"the hex of the secret's bytes", func(s string) ([]byte, bool) { return []byte(hex.EncodeToString([]byte(s))), true }},
		{"the base64 of the secret's bytes", func(s string) ([]byte, bool) { return []byte(base64.StdEncoding.EncodeToString([]byte(s))), true }},
		{"what follows the first colon of the secret", func(s string) ([]byte, bool) {
			_, rest, found := strings.Cut(s, ":")
			return []byte(rest), found
		}},
	}
}

// decodings decode the secret in other ways than the provider's rule.
func decodings(p *Provider) []change {
	var out []change
	plain := p.textKeys()
	for _, d := range knownDecodings() {
		out = append(out, change{MistakeDecoding, "it is signed with " + d.text + ", which is not how a secret of " + p.name + " is decoded", 0, func(t *trial) bool {
			if plain != nil {
				t.p = t.p.textKeys()
			}
			return t.replace(func(secret *Secret) bool {
				key, ok := d.decode(string(secret.Value))
				ok = ok && len(key) > 0 && (plain != nil || !bytes.Equal(key, secret.Value)) //secretcompare:ok both are the operator's own
				secret.Value = key
				return ok
			})
		}})
	}
	return out
}

// textKeys returns the provider with every secret used as text. It returns nil if the provider's
// keys are not plain bytes.
func (p *Provider) textKeys() *Provider {
	if !p.spec.Verify.signs() {
		return nil
	}
	return p.variant(func(s *Spec) {
		schemes := slices.Clone(s.Verify.Signature.Schemes)
		for i := range schemes {
			if strings.HasPrefix(schemes[i].Algorithm, "hmac-") {
				schemes[i].Key, schemes[i].KeyPrefix, schemes[i].KeyPrefixRequired = "text", "", false
			}
			schemes[i].PrivatePrefix = ""
		}
		s.Verify.Signature.Schemes = schemes
	})
}
