package providers

import (
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

// locator reads single values of a request that take part in its verification: the signature
// itself, or signed fields. It parses the request at most once, and only if the provider's
// verification reads such values.
type locator struct {
	p        *Provider
	req      *Request
	document []byte
	spans    []jsonspan.Span
	form     url.Values
	query    url.Values
	walked   bool
	failed   bool
}

// locator returns a reader of single values, or nil if the provider's verification reads none.
func (p *Provider) locator(req *Request) *locator {
	if !p.locates {
		return nil
	}
	return p.newLocator(req)
}

func (p *Provider) newLocator(req *Request) *locator { return &locator{p: p, req: req} }

// locates reports whether verification reads single values of the request.
func (v *VerifySpec) locates() bool {
	if v.Timestamp.From == "json" || v.Timestamp.From == "form" || v.Signature.From == "json" || v.Signature.From == "form" || v.Signature.From == "query" {
		return true
	}
	for i := range v.Signed {
		if p := &v.Signed[i]; p.JSON != "" || p.Form != "" || p.Query != "" {
			return true
		}
	}
	return false
}

// json returns the text at a path: strings decoded, anything else as written. null counts as
// absent.
func (l *locator) json(path string) (string, bool) {
	if !l.walked {
		l.walked = true
		l.document = l.p.Document(l.req.Body)
		spans, err := l.p.located.Walk(l.document)
		l.spans, l.failed = spans, err != nil
	}
	slot, known := l.p.located.Slot(path)
	if l.failed || !known || !l.spans[slot].Present() {
		return "", false
	}
	raw := l.spans[slot].Of(l.document)
	switch raw[0] {
	case '"':
		text, err := jsonspan.Unquote(raw)
		return text, err == nil
	case 'n', '{', '[':
		return "", false
	}
	return string(raw), true
}

func (l *locator) formField(name string) (string, bool) {
	if l.form == nil {
		form, is, err := parseMultipart(l.req)
		if !is {
			form, err = parseForm(l.req.Body)
		}
		if err != nil {
			form = url.Values{}
		}
		l.form = form
	}
	value, ok, err := one(l.form[name])
	return value, ok && err == nil
}

func (l *locator) queryField(name string) (string, bool) {
	if l.query == nil {
		l.query = url.Values{}
		if u, err := url.Parse(l.req.URL); err == nil {
			l.query = u.Query()
		}
	}
	value, ok, err := one(l.query[name])
	return value, ok && err == nil
}

// urlPart returns the path or the query of an address without decoding it.
func urlPart(address, which string) string {
	if i := strings.IndexByte(address, '#'); i >= 0 {
		address = address[:i]
	}
	path, query, _ := strings.Cut(address, "?")
	if which == "query" {
		return query
	}
	if _, rest, ok := strings.Cut(path, "://"); ok {
		i := strings.IndexByte(rest, '/')
		if i < 0 {
			return "/"
		}
		return rest[i:]
	}
	return path
}

// locatedPaths returns the JSON paths that take part in verification.
func locatedPaths(v *VerifySpec) *jsonspan.PathSet {
	paths := jsonspan.NewPathSet()
	if v.Signature.From == "json" {
		paths.Add(v.Signature.Path)
	}
	if v.Timestamp.From == "json" {
		paths.Add(v.Timestamp.Path)
	}
	for i := range v.Signed {
		if v.Signed[i].JSON != "" {
			paths.Add(v.Signed[i].JSON)
		}
	}
	for i := range v.Credential {
		if v.Credential[i].Scheme == "json" {
			paths.Add(v.Credential[i].Name)
		}
	}
	return paths
}

func base64Body(body []byte) []byte {
	out := make([]byte, base64.StdEncoding.EncodedLen(len(body)))
	base64.StdEncoding.Encode(out, body)
	return out
}
