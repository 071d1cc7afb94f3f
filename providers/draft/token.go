package draft

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"hash"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var tokenForm = regexp.MustCompile(`^[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]{16,}$`)

// tokens returns a fit for each request header that contains a JWT signed with the secret.
func tokens(c *captured, o Options) []Fit {
	var out []Fit
	for _, h := range c.headers {
		token, prefix := h.value, ""
		if word, rest, ok := strings.Cut(h.value, " "); ok {
			token, prefix = strings.Trim(rest, " "), word
		}
		name, claims, ok := signedToken(token, o.Secret)
		if !ok {
			continue
		}
		out = append(out, tokenFit(c, h.name, prefix, name, claims))
	}
	return out
}

// signedToken reports whether text is a JWT signed with the secret, and returns its algorithm and
// claims.
func signedToken(text string, secret []byte) (algorithm string, claims map[string]any, ok bool) {
	if !tokenForm.MatchString(text) {
		return "", nil, false
	}
	parts := strings.Split(text, ".")
	var head struct {
		Algorithm string `json:"alg"`
	}
	decode := func(part string, into any) bool {
		raw, err := base64.RawURLEncoding.DecodeString(part)
		return err == nil && json.Unmarshal(raw, into) == nil
	}
	if !decode(parts[0], &head) || !decode(parts[1], &claims) {
		return "", nil, false
	}
	newHash := map[string]func() hash.Hash{"HS256": sha256.New, "HS384": sha512.New384, "HS512": sha512.New}[head.Algorithm]
	if newHash == nil {
		return "", nil, false
	}
	mac := hmac.New(newHash, secret)
	mac.Write([]byte(parts[0] + "." + parts[1]))
	sum, err := base64.RawURLEncoding.DecodeString(parts[2])
	return head.Algorithm, claims, err == nil && hmac.Equal(mac.Sum(nil), sum)
}

func tokenFit(c *captured, header, prefix, algorithm string, claims map[string]any) Fit {
	f := Fit{Covers: "origin", covered: map[string]bool{}, score: 150}
	options := []string{"algorithms: [" + algorithm + "]"}
	if prefix != "" {
		options = append(options, "prefix: ["+quoted(prefix)+"]")
	}
	require := []string{}
	for _, name := range []string{"exp", "iat", "jti"} {
		if _, ok := claims[name]; ok {
			require = append(require, name)
		}
	}
	f.SignsTime = slices.Contains(require, "exp") || slices.Contains(require, "iat")
	for claim, option := range map[string]string{"iss": "issuer", "aud": "audience"} {
		if value, ok := claims[claim].(string); ok && value != "" {
			require = append(require, claim)
			options = append(options, option+": ["+quoted(value)+"]")
		}
	}
	sum := sha256.Sum256(c.req.Body)
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		value, _ := claims[name].(string)
		encoding := map[string]string{hex.EncodeToString(sum[:]): "hex", base64.StdEncoding.EncodeToString(sum[:]): "base64"}[value]
		if encoding == "" {
			continue
		}
		f.Covers, f.score = "body", 310
		require = append(require, name)
		options = append(options, "body_claim: ["+quoted(name)+"]", "body_encoding: ["+encoding+"]")
	}
	if len(require) == 0 {
		require = []string{"none"}
	}
	slices.Sort(require)
	slices.Sort(options)
	if !slices.Contains(require, "iat") || slices.Contains(require, "exp") {
		options = append(options, "max_age: [exp]")
	}
	options = append(options, "require: ["+strings.Join(require, ", ")+"]")
	if f.Covers != "body" {
		f.Notes = append(f.Notes, "no claim of the token is the SHA-256 of the body: "+worth("origin"))
	}
	f.Text = "token (JWT, " + algorithm + ") in header " + header
	f.verify = "verify:\n  family: jwt\n  authenticates: " + f.Covers + " # " + worth(f.Covers) +
		"\n  signature: { headers: [" + header + "] }\n  timestamp: { from: scheme, past: none, future: 300s }\n  options:\n    " + strings.Join(options, "\n    ") + "\n"
	return f
}
