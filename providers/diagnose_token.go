package providers

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	schemes "github.com/oncegate/oncegate/providers/scheme"
)

// token contains the algorithm and the claims of a request's token. They are not trusted. The
// search tries them, and reports them only if the token is authentic with them.
type token struct {
	algorithm string
	claims    map[string]json.RawMessage
}

// tokenOf returns the first token in the headers that the provider reads.
func tokenOf(p *Provider, req *Request) (token, bool) {
	for _, name := range append(slices.Clone(p.spec.Verify.Signature.Headers), "Authorization") {
		value := req.Header.Get(name)
		value = value[strings.LastIndexByte(value, ' ')+1:]
		parts := strings.Split(value, ".")
		if len(parts) != 3 || len(value) > maxHeader {
			continue
		}
		var header struct {
			Algorithm string `json:"alg"`
		}
		var out token
		if readPart(parts[0], &header) && readPart(parts[1], &out.claims) {
			out.algorithm = header.Algorithm
			return out, true
		}
	}
	return token{}, false
}

func readPart(text string, into any) bool {
	plain, err := base64.RawURLEncoding.DecodeString(text)
	return err == nil && json.Unmarshal(plain, into) == nil
}

// texts returns the values of a claim that is a text or a list of texts.
func (t *token) texts(claim string) []string {
	var list []string
	if json.Unmarshal(t.claims[claim], &list) == nil {
		return list
	}
	var text string
	if json.Unmarshal(t.claims[claim], &text) == nil && text != "" {
		return []string{text}
	}
	return nil
}

// moment returns the time of a claim, or zero if there is none.
func (t *token) moment(claim string) time.Time {
	var seconds float64
	if json.Unmarshal(t.claims[claim], &seconds) != nil || seconds <= 0 || seconds > lastInstant {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0).UTC()
}

// tokenAlgorithms lists the algorithms that a source may accept.
var tokenAlgorithms = []string{"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// undone is a setting with which a token would be accepted.
type undone struct {
	mistake       Mistake
	setting, text string
	values        []string
}

// tokenChanges try the settings that would match the token, one by one and then all together.
func (s *search) tokenChanges() []change {
	p := s.base.p
	settings, err := p.ready()
	if err != nil || p.scheme == nil || len(settings["algorithms"]) == 0 {
		return nil
	}
	t, ok := tokenOf(p, &s.base.req)
	if !ok {
		return nil
	}
	list := t.undone(settings, s.base.req.Body)
	var out []change
	var texts []string
	for i := range list {
		texts = append(texts, list[i].text)
		out = append(out, change{list[i].mistake, list[i].text, 0, func(t *trial) bool { t.p = t.p.withSettings(list[i : i+1]); return true }})
	}
	if len(list) > 1 {
		out = append(out, change{MistakeScheme, strings.Join(texts, "; and "), 0, func(t *trial) bool { t.p = t.p.withSettings(list); return true }})
	}
	return out
}

// undone returns the settings that the token does not meet.
func (t *token) undone(settings schemes.Settings, body []byte) []undone {
	var out []undone
	if !slices.Contains(settings["algorithms"], t.algorithm) && slices.Contains(tokenAlgorithms, t.algorithm) {
		out = append(out, undone{MistakeScheme, "algorithms", "the token is made with " + t.algorithm + "; the source takes " + strings.Join(settings["algorithms"], ", "), []string{t.algorithm}})
	}
	for _, pair := range [][2]string{{"issuer", "iss"}, {"audience", "aud"}, {"email", "email"}} {
		setting, claim := pair[0], pair[1]
		has, want := t.texts(claim), settings[setting]
		if len(want) > 0 && len(has) > 0 && !slices.ContainsFunc(has, func(text string) bool { return slices.Contains(want, text) }) {
			out = append(out, undone{MistakeScheme, setting, "the token's " + setting + " (" + claim + ") is " + quoted(has) + "; the source expects " + quoted(want), has})
		}
	}
	required := settings["require"]
	if len(required) == 0 {
		required = []string{"exp", "aud"}
	}
	for _, claim := range required {
		if _, ok := t.claims[claim]; !ok && claim != "none" {
			out = append(out, undone{MistakeScheme, "require", "the token has no claim " + claim + ", which the source requires", []string{"none"}})
			break
		}
	}
	if claim := settings.One("body_claim"); claim != "" && len(t.texts(claim)) == 1 {
		sum := sha256.Sum256(body)
		digests := map[string]string{"hex": hex.EncodeToString(sum[:]), "base64": base64.StdEncoding.EncodeToString(sum[:])}
		own, other := "hex", "base64"
		if settings.One("body_encoding") == other {
			own, other = other, own
		}
		switch t.texts(claim)[0] {
		case digests[own]:
		case digests[other]:
			out = append(out, undone{MistakeScheme, "body_encoding", "the token's claim " + claim + " holds the body's digest in " + other + ", not in " + own, []string{other}})
		default:
			out = append(out, undone{MistakeBody, "body_claim", "the token is authentic and about another body: the body was changed on the way", []string{""}})
		}
	}
	return out
}

// withSettings returns the provider with some of its settings changed.
func (p *Provider) withSettings(list []undone) *Provider {
	settings, err := p.ready()
	if err != nil {
		return p
	}
	settings = maps.Clone(settings)
	for i := range list {
		settings[list[i].setting] = list[i].values
	}
	out := *p
	out.settings, out.bound = settings, true
	return &out
}

// quoted formats the values of a token or a setting, shortened.
func quoted(values []string) string {
	shown := make([]string, 0, 3)
	for _, value := range values[:min(len(values), 3)] {
		shown = append(shown, strconv.QuoteToASCII(value[:min(len(value), 80)]))
	}
	return strings.Join(shown, " or ")
}

// lapsed says by how much an authentic token is outside its own validity period. It returns nil if
// the token is valid.
func lapsed(p *Provider, req *Request) *Finding {
	t, ok := tokenOf(p, req)
	if !ok || p.scheme == nil {
		return nil
	}
	say := func(m Mistake, word, claim string, by time.Duration) *Finding {
		return &Finding{m, word + " by " + strconv.FormatInt(int64(by/time.Second), 10) + " seconds: the token's " + claim + " is " +
			t.moment(claim).Format(time.RFC3339) + ", received at " + req.ReceivedAt.UTC().Format(time.RFC3339) + "; the signature itself is right"}
	}
	if at := t.moment("exp"); !at.IsZero() && req.ReceivedAt.After(at) {
		return say(MistakeStale, "stale", "exp", req.ReceivedAt.Sub(at))
	}
	if at := t.moment("nbf"); !at.IsZero() && req.ReceivedAt.Before(at) {
		return say(MistakeEarly, "early", "nbf", at.Sub(req.ReceivedAt))
	}
	return nil
}
