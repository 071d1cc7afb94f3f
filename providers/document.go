package providers

import (
	"bytes"
	"net/http"
	"net/url"

	schemes "github.com/oncegate/oncegate/providers/scheme"
)

// Document returns the JSON document of a delivery: the body itself, the claims of the token that
// the body carries, or the form field that contains the document. A body without such a document is
// returned unchanged. Document verifies nothing, so call it only with a body that was verified. It
// depends on the body and the provider alone, and never on the Content-Type, which no signature
// covers.
func (p *Provider) Document(body []byte) []byte {
	if document := p.carried(body); document != nil {
		return document
	}
	if document, ok := p.formDocument(body); ok {
		return document
	}
	return body
}

// Wraps reports whether the document of a delivery may differ from its body.
func (p *Provider) Wraps() bool {
	_, carrier := p.scheme.(schemes.Carrier)
	return carrier || p.formField() != ""
}

// carried returns the document in a token that the body carries, or nil if there is none.
func (p *Provider) carried(body []byte) []byte {
	carrier, ok := p.scheme.(schemes.Carrier)
	if !ok {
		return nil
	}
	document, ok := carrier.Document(p.spec.Verify.Options, body)
	if !ok {
		return nil
	}
	return document
}

// formField returns the name of the form field that contains the document. It is empty for a
// provider that splits the document, because the events are then parts of the encoded body.
func (p *Provider) formField() string {
	if p.spec.Split.JSON != "" {
		return ""
	}
	return p.spec.Body.FormJSON
}

// formDocument returns the document in a form. ok is false if the body is not a form with one.
func (p *Provider) formDocument(body []byte) (document []byte, ok bool) {
	field := p.formField()
	if field == "" || isDocument(body) {
		return nil, false
	}
	form, err := formOf(body)
	if err != nil {
		return nil, false
	}
	value, ok, err := one(form[field])
	if err != nil || !ok || !isDocument([]byte(value)) {
		return nil, false
	}
	return []byte(value), true
}

// formOf parses a form by its bytes: a multipart body begins with its boundary.
func formOf(body []byte) (url.Values, error) {
	line, _, _ := bytes.Cut(body, []byte("\n"))
	boundary, multipart := bytes.CutPrefix(bytes.TrimRight(line, "\r"), []byte("--"))
	if !multipart {
		return parseForm(body)
	}
	header := http.Header{"Content-Type": {`multipart/form-data; boundary="` + string(boundary) + `"`}}
	form, _, err := parseMultipart(&Request{Header: header, Body: body})
	return form, err
}

// replaceDocument replaces a value in the document of a request. It reports false if the document
// has no such value, or cannot be written into the body.
func (p *Provider) replaceDocument(req *Request, path, value string) bool {
	document, ok := p.formDocument(req.Body)
	if !ok {
		return replaceJSON(req, path, value)
	}
	changed := &Request{Body: document}
	if !replaceJSON(changed, path, value) {
		return false
	}
	if bytes.HasPrefix(req.Body, []byte("--")) {
		req.Body = bytes.Replace(req.Body, document, changed.Body, 1)
		return true
	}
	return replaceForm(req, p.formField(), string(changed.Body))
}
