package draft

import (
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

// credentials returns a fit for each place of the request that contains the secret itself.
func credentials(c *captured, o Options) []Fit {
	secret := string(o.Secret)
	var out []Fit
	add := func(text, credential string, notes ...string) {
		out = append(out, Fit{
			Text: text, Covers: "origin", covered: map[string]bool{}, score: 50 - len(out),
			Notes:  append(notes, "nothing is signed: who sees one request can send others"),
			verify: "verify:\n  family: static\n  authenticates: origin # " + worth("origin") + "\n  credential: [" + credential + "]\n",
		})
	}
	for _, h := range c.headers {
		name := ""
		if h.name != "Authorization" {
			name = ", header: " + h.name
		}
		word, rest, spaced := strings.Cut(h.value, " ")
		rest = strings.Trim(rest, " ")
		switch {
		case same(h.value, secret):
			add("the secret itself in header "+h.name, "{ scheme: header, header: "+h.name+" }")
		case spaced && strings.EqualFold(word, "Bearer") && same(rest, secret):
			add("bearer token in header "+h.name, "{ scheme: bearer"+name+" }")
		case spaced && strings.EqualFold(word, "Basic") && same(plain(rest), secret):
			add("basic authentication in header "+h.name, "{ scheme: basic"+name+" }")
		default:
			if before, ok := strings.CutSuffix(h.value, secret); ok && len(before) < 40 {
				add(fmt.Sprintf("the secret behind %q in header %s", before, h.name), "{ scheme: header, header: "+h.name+", prefix: "+quoted(before)+" }")
			}
		}
	}
	for _, q := range c.query {
		if same(q.value, secret) {
			add("the secret itself in query parameter "+q.name, "{ scheme: query, name: "+quoted(q.name)+" }", "a secret in an address ends up in logs")
		}
	}
	for _, l := range slices.Concat(c.form, c.json) {
		if same(l.value, secret) && (l.kind != "json" || c.inForm == "") {
			add("the secret itself in "+l.where(), "{ scheme: "+l.kind+", name: "+quoted(l.name)+" }", "the secret is recorded with every event: seal the bodies of this source")
		}
	}
	return out
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func plain(text string) string {
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return ""
	}
	return string(decoded)
}

// near returns hints for requests that would verify if the operator wrote the secret differently,
// and for tokens that no provider can read.
func near(c *captured, o Options) []string {
	var out []string
	secret := string(o.Secret)
	for _, h := range c.headers {
		word, rest, ok := strings.Cut(h.value, " ")
		if !ok || !strings.EqualFold(word, "Basic") {
			continue
		}
		user, password, ok := strings.Cut(plain(strings.Trim(rest, " ")), ":")
		switch {
		case ok && same(password, secret):
			out = append(out, "the secret is the password of the basic authentication in header "+h.name+": write the secret as USER:PASSWORD, and draft again")
		case ok && same(user, secret):
			out = append(out, "the secret is the user name of the basic authentication in header "+h.name+": write the secret as USER:PASSWORD (the password may be empty), and draft again")
		}
	}
	out = append(out, nearMessage(c, o)...)
	for _, l := range slices.Concat([]leaf{{kind: "form", name: "that is the whole body", value: strings.TrimSpace(string(c.req.Body))}}, c.form, c.json, c.query) {
		if name, _, ok := signedToken(l.value, o.Secret); ok {
			out = append(out, "a token (JWT, "+name+") in "+l.where()+" is signed with the secret: tokens are read in headers alone, so no provider can be written for it")
		}
	}
	if trimmed := strings.TrimSpace(secret); trimmed != secret {
		out = append(out, "the secret has white space around it: if that is not part of it, draft again without it")
	}
	return out
}
