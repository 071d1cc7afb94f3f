package providers

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// headerChanges look for the signature in other headers and other forms.
func (s *search) headerChanges() []change {
	p := s.base.p
	names := slices.Clone(p.spec.Verify.Signature.Headers)
	for i := range p.spec.Verify.Credential {
		names = append(names, p.spec.Verify.Credential[i].header())
	}
	var out []change
	cost := headerCost(s.base.req.Header)
	for _, name := range names {
		canonical := http.CanonicalHeaderKey(name)
		values := s.base.req.Header[canonical]
		set := func(text, value string) {
			out = append(out, change{MistakeHeader, text, cost, func(t *trial) bool {
				t.req.Header = t.req.Header.Clone()
				if t.req.Header == nil {
					t.req.Header = http.Header{}
				}
				t.req.Header[canonical] = []string{value}
				return true
			}})
		}
		for i, value := range values[:min(len(values), maxTriedValues)] {
			if len(value) > maxHeader {
				continue // verification does not read it
			}
			if len(values) > 1 {
				set("header "+name+" is present "+count(len(values))+" and only the "+ordinal(i)+" matches", value)
			}
			if trimmed := unquoted(value); trimmed != value {
				set("header "+name+" has white space or quotation marks around its value", trimmed)
			}
			if plain, err := url.PathUnescape(value); err == nil && plain != value {
				set("header "+name+" is percent-encoded", plain)
			}
			if first, rest, several := strings.Cut(value, ","); several {
				set("header "+name+" was joined with another of the same name", strings.TrimSpace(first))
				set("header "+name+" was joined with another of the same name", strings.TrimSpace(rest))
			}
			if prefix := p.spec.Verify.Signature.Prefix; prefix != "" && !strings.HasPrefix(value, prefix) {
				set("header "+name+" lacks the prefix "+prefix, prefix+value)
			}
			if suffix := p.spec.Verify.Signature.Suffix; suffix != "" && !strings.HasSuffix(value, suffix) {
				set("header "+name+" lacks the suffix "+suffix, value+suffix)
			}
			if _, rest, labelled := strings.Cut(value, "="); labelled && rest != "" && p.spec.Verify.Signature.Format != "list" {
				set("header "+name+" has a prefix that the rule of "+p.name+" does not expect", p.spec.Verify.Signature.Prefix+rest)
			}
			out = append(out, s.credentialChanges(name, value, set)...)
		}
	}
	return append(out, s.misplaced(names, cost)...)
}

// maxTriedValues is how many values of one header are tried as the signature.
const maxTriedValues = 8

// headerCost is the size of a copy of the headers without the texts, which are shared.
func headerCost(header http.Header) int64 {
	cost := int64(0)
	for _, values := range header {
		cost += 100 + 16*int64(len(values))
	}
	return cost
}

// credentialChanges correct the word before a static credential.
func (s *search) credentialChanges(name, value string, set func(text, value string)) []change {
	for i := range s.base.p.spec.Verify.Credential {
		c := &s.base.p.spec.Verify.Credential[i]
		if c.header() != name {
			continue
		}
		kind, rest, worded := strings.Cut(value, " ")
		switch {
		case c.Scheme == "bearer" && !worded:
			set("header "+name+" lacks the word Bearer", "Bearer "+value)
		case c.Scheme == "header" && worded && (strings.EqualFold(kind, "bearer") || strings.EqualFold(kind, "token")):
			set("header "+name+" has the word "+kind+" before the credential", rest)
		}
	}
	return nil
}

// misplaced tries the value of every other header as the signature.
func (s *search) misplaced(names []string, cost int64) []change {
	var out []change
	if len(names) == 0 {
		return nil
	}
	target := http.CanonicalHeaderKey(names[0])
	var others []string
	for name, values := range s.base.req.Header {
		if name != target && len(values) == 1 && len(values[0]) >= 16 && len(values[0]) <= maxHeader {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	for _, other := range others[:min(len(others), 40)] {
		value := s.base.req.Header[other][0]
		out = append(out, change{MistakeHeader, "the signature is in header " + other + ", not in " + strings.Join(names, " or "), cost, func(t *trial) bool {
			t.req.Header = t.req.Header.Clone()
			for _, name := range names {
				t.req.Header.Del(name)
			}
			t.req.Header[target] = []string{value}
			return true
		}})
	}
	return out
}

func ordinal(i int) string {
	switch i {
	case 0:
		return "first"
	case 1:
		return "second"
	}
	return "later one"
}

// signsURL reports whether the signature may cover the address. It assumes so for a scheme, which
// does not say.
func (p *Provider) signsURL() bool {
	if !p.spec.Verify.signs() {
		return p.spec.Verify.Family != familyStatic && p.spec.Verify.Family != familyOperation && !p.IsMessage()
	}
	return slices.ContainsFunc(p.spec.Verify.Signed, func(part Part) bool {
		return part.Word == "url" || part.Word == "path" || part.Word == "query" || part.Word == "method"
	})
}

// maxTriedAddress and maxTriedHost are the longest address and host name, in bytes, of which other
// forms are tried. There are about a hundred forms.
const maxTriedAddress, maxTriedHost = 8 << 10, 255

// urlChanges revert the changes that proxies make to an address.
func (s *search) urlChanges() []change {
	if !s.base.p.signsURL() {
		return nil
	}
	base, err := url.Parse(s.base.req.URL)
	if err != nil || len(s.base.req.URL) > maxTriedAddress {
		return nil
	}
	var out []change
	seen := map[string]bool{s.base.req.URL: true}
	add := func(text string, u url.URL) {
		if written := u.String(); !seen[written] {
			seen[written] = true
			out = append(out, change{MistakeURL, text + ": it covers " + addressOnly(u), 0, func(t *trial) bool {
				t.req.URL = written
				return true
			}})
		}
	}
	const differs = "the signature covers another address than the one configured or seen here"
	hosts := []string{base.Host}
	for _, name := range []string{"X-Forwarded-Host", "X-Original-Host", "Host"} {
		if host := s.base.req.Header.Get(name); host != "" && len(host) <= maxTriedHost && !strings.ContainsAny(host, " /?#,") {
			hosts = append(hosts, host)
		}
	}
	for _, host := range hosts {
		for _, scheme := range []string{"https", "http"} {
			for _, address := range []string{host, withoutPort(host), withPort(host, scheme)} {
				for _, path := range []string{base.Path, strings.TrimSuffix(base.Path, "/"), strings.TrimSuffix(base.Path, "/") + "/"} {
					u := *base
					u.Scheme, u.Host, u.Path, u.RawPath = scheme, address, path, ""
					add(differs, u)
					if u.RawQuery != "" {
						u.RawQuery = ""
						add(differs+", without the query", u)
					}
				}
			}
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodGet} {
		if method != s.base.req.Method {
			out = append(out, change{MistakeMethod, "the signature covers the method " + method + ", not " + s.base.req.Method, 0, func(t *trial) bool {
				t.req.Method = method
				return true
			}})
		}
	}
	return out
}

func withoutPort(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		return host[:i]
	}
	return host
}

func withPort(host, scheme string) string {
	if scheme == "http" {
		return withoutPort(host) + ":80"
	}
	return withoutPort(host) + ":443"
}

// addressOnly removes the user and the query's values, which may be credentials.
func addressOnly(u url.URL) string {
	u.User = nil
	if u.RawQuery != "" {
		u.RawQuery = "..."
	}
	return u.String()
}
