package draft

import (
	"encoding/base64"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/providers"
)

var covers = regexp.MustCompile(`"([^"]+)"`)

// structured drafts HTTP Message Signatures (RFC 9421).
func structured(c *captured, o Options) []Fit {
	input := c.header("Signature-Input")
	if input == "" || c.header("Signature") == "" {
		return nil
	}
	inside, _, _ := strings.Cut(strings.TrimPrefix(input[strings.IndexByte(input, '(')+1:], "("), ")")
	components := []string{}
	for _, m := range covers.FindAllStringSubmatch(inside, -1) {
		if slices.Contains([]string{"content-digest", "@method", "@authority", "@target-uri", "@path", "@query"}, m[1]) && !slices.Contains(components, m[1]) {
			components = append(components, m[1])
		}
	}
	f := Fit{Covers: "origin", covered: map[string]bool{}, score: 150, SignsTime: strings.Contains(input, ";created=")}
	if slices.Contains(components, "content-digest") {
		f.Covers, f.score = "body", 345
	}
	f.Text = "HTTP Message Signature (RFC 9421) over " + strings.Join(components, ", ")
	required := make([]string, len(components))
	for i, name := range components {
		required[i] = quoted(name)
	}
	if len(required) == 0 {
		required = []string{"none"}
	}
	if f.Covers != "body" {
		f.Notes = append(f.Notes, "the signature does not cover content-digest: "+worth("origin"))
	}
	f.verify = "verify:\n  family: rfc9421\n  authenticates: " + f.Covers + " # " + worth(f.Covers) +
		"\n  signature: { headers: [Signature, Signature-Input, Content-Digest] }\n  timestamp: { from: scheme, past: none, future: 300s }\n" +
		"  options: { components: [" + strings.Join(required, ", ") + "] }\n"
	return []Fit{f}
}

var keyID = regexp.MustCompile(`;keyid="([^"]+)"`)

// nearMessage finds an RFC 9421 signature that verifies with the secret, but only if the operator
// writes the secret in the form that the scheme requires.
func nearMessage(c *captured, o Options) []string {
	m := keyID.FindStringSubmatch(c.header("Signature-Input"))
	fits := structured(c, o)
	if m == nil || len(fits) == 0 || strings.HasPrefix(string(o.Secret), m[1]+":") {
		return nil
	}
	text, _ := write("near", c, &fits[0], o)
	p, err := providers.ParseOver("near", []byte(text), o.Catalog)
	if err != nil {
		return nil
	}
	for how, material := range map[string]string{"the base64 of the secret": base64.StdEncoding.EncodeToString(o.Secret), "the secret": string(o.Secret)} {
		for _, algorithm := range []string{"hmac-sha256", "ed25519", "ecdsa-p256-sha256", "rsa-pss-sha512", "rsa-v1_5-sha256"} {
			secrets := []providers.Secret{{Name: "draft", Value: []byte(m[1] + ":" + algorithm + "=" + material)}}
			if p.CheckSecrets(secrets) == nil && authentic(p, c.req, secrets) {
				return []string{"the request is signed by RFC 9421 with this secret: write it as KEYID:" + algorithm + "=KEY, where KEYID is that of the header Signature-Input and KEY is " + how + ", and draft again"}
			}
		}
	}
	return nil
}

// families drafts providers that extend a provider of the catalogue whose signing method only Go
// code can verify.
func families(c *captured, o Options) []Fit {
	var out []Fit
	seen := map[string]bool{}
	secrets := []providers.Secret{{Name: "draft", Value: o.Secret}}
	for _, name := range slices.Sorted(maps.Keys(o.Catalog)) {
		p := o.Catalog[name]
		spec := p.Spec()
		family := spec.Verify.Family
		switch family {
		case "hmac", "signature", "static", "operation", "broker", "none", "jwt", "rfc9421", "content-digest", "ip", "mtls":
			if len(spec.Modes) == 0 {
				continue
			}
		}
		for _, settings := range settingsOf(p) {
			bound, err := p.Bind(providers.Binding{Settings: settings})
			if err != nil || seen[family] || bound.CheckSecrets(secrets) != nil || !authentic(bound, c.req, secrets) {
				continue
			}
			seen[family] = true
			covers := spec.Verify.Authenticates
			f := Fit{
				Text: "the way of " + spec.Title + " (family " + family + ")", Covers: covers, covered: map[string]bool{},
				score: map[string]int{"body": 290, "part": 190, "origin": 90}[covers], extends: name,
				Notes: []string{"only Go can verify this way of signing: the draft extends " + name + " and has its rules"},
			}
			for setting, value := range settings {
				f.verify += "settings:\n  - { name: " + setting + ", about: " + quoted("as in the captured request") + ", default: [" + value[0] + "] }\n"
			}
			out = append(out, f)
		}
	}
	return out
}

// settingsOf returns the settings to try: the defaults, and the known algorithms for a setting that
// names one.
func settingsOf(p *providers.Provider) []map[string][]string {
	out := []map[string][]string{nil}
	for _, s := range p.Spec().Settings {
		if s.Name == "algorithm" {
			for _, value := range []string{"sha256", "sha512", "sha1", "md5"} {
				out = append(out, map[string][]string{s.Name: {value}})
			}
		}
	}
	return out
}

// looks returns the providers of the catalogue whose headers the request has.
func looks(c *captured, o Options) []Look {
	secrets := []providers.Secret{{Name: "draft", Value: o.Secret}}
	users := map[string]int{}
	own := map[string][]string{}
	for name, p := range o.Catalog {
		own[name] = headersOf(p.Spec())
		for _, header := range own[name] {
			users[header]++
		}
	}
	var out []Look
	weights := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(o.Catalog)) {
		p := o.Catalog[name]
		var common []string
		weight := 0
		for _, header := range own[name] {
			if c.header(header) == "" {
				continue
			}
			common = append(common, header)
			weight += 12 / min(users[header], 12)
		}
		if weight == 0 || len(common) == 0 || weight < 4 {
			continue
		}
		verified := p.CheckSecrets(secrets) == nil && p.CheckSettings(nil) == nil && authentic(p, c.req, secrets)
		if verified {
			weight += 100
		}
		weights[name] = weight
		out = append(out, Look{Name: name, Verified: verified, Why: "header " + strings.Join(common, ", ")})
	}
	slices.SortStableFunc(out, func(a, b Look) int { return weights[b.Name] - weights[a.Name] })
	if len(out) == 0 {
		return generic(c, o, own)
	}
	best := 0
	for _, l := range out {
		best = max(best, weights[l.Name])
	}
	return slices.DeleteFunc(out, func(l Look) bool { return weights[l.Name]*2 < best || weights[l.Name] < 6 })
}

// standards names the providers of the catalogue that many senders implement.
var standards = []string{"standard-webhooks", "svix", "rfc9421", "websub", "hmac"}

// generic returns the standard with which the request verifies, for a request of an unknown sender.
func generic(c *captured, o Options, own map[string][]string) []Look {
	secrets := []providers.Secret{{Name: "draft", Value: o.Secret}}
	for _, name := range standards {
		p := o.Catalog[name]
		if p != nil && p.CheckSecrets(secrets) == nil && authentic(p, c.req, secrets) {
			present := slices.DeleteFunc(slices.Clone(own[name]), func(header string) bool { return c.header(header) == "" })
			return []Look{{Name: name, Verified: true, Why: "header " + strings.Join(present, ", ")}}
		}
	}
	return nil
}

// headersOf returns the headers that identify a provider's requests.
func headersOf(spec *providers.Spec) []string {
	var out []string
	add := func(name string) {
		if canonical := canonicalName(name); canonical != "" && canonical != "Authorization" && canonical != "Content-Type" && canonical != "User-Agent" && !slices.Contains(out, canonical) {
			out = append(out, canonical)
		}
	}
	verify := func(v *providers.VerifySpec) {
		for _, name := range v.Signature.Headers {
			add(strings.Replace(name, "-N", "-1", 1))
		}
		for _, name := range v.Timestamp.Header {
			add(name)
		}
		for _, credential := range v.Credential {
			add(credential.Header)
		}
		for _, r := range v.Require {
			add(r.Header)
		}
	}
	verify(&spec.Verify)
	for i := range spec.Modes {
		verify(&spec.Modes[i].Verify)
	}
	var fields func(list []providers.Field)
	fields = func(list []providers.Field) {
		for i := range list {
			add(list[i].Header)
			fields(list[i].Join)
		}
	}
	fields(spec.Identity.Candidates)
	fields(spec.Identity.With)
	fields(spec.Type)
	for name := range spec.Example.Headers {
		add(name)
	}
	return out
}
