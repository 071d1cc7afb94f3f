package scheme

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

// tokenIn returns the token in a body, and describes its place for a refusal. It never looks at the
// Content-Type, which nothing signs.
func tokenIn(s Settings, body []byte) (token, where string, err error) {
	if member := s.One("json"); member != "" {
		where = "JSON " + member
		text, ok, err := textAt(body, member)
		switch {
		case err != nil:
			return "", where, refuse(Malformed, "the body is not JSON, or contains a member twice")
		case !ok:
			return "", where, refuse(Unsigned, where+" is missing")
		}
		return text, where, nil
	}
	if field := s.One("form"); field != "" {
		where = "form " + field
		form, err := readForm(body)
		switch {
		case err != nil:
			return "", where, refuse(Malformed, "the body is not a form")
		case len(form[field]) > 1:
			return "", where, refuse(Malformed, where+" is present twice")
		case form.Get(field) == "":
			return "", where, refuse(Unsigned, where+" is missing")
		}
		return form.Get(field), where, nil
	}
	text := string(bytes.TrimSpace(body))
	if text == "" {
		return "", "the body", refuse(Unsigned, "the body is empty")
	}
	return text, "the body", nil
}

// Document returns the claims of the token in a body.
func (BodyToken) Document(s Settings, body []byte) (document []byte, ok bool) {
	text, _, err := tokenIn(s, body)
	if err != nil || len(text) > maxBodyToken {
		return nil, false
	}
	claims := decodeToken(text)
	if claims == nil {
		return nil, false
	}
	return unpack(claims, s["unpack"]), true
}

// textAt returns the text at a JSON path. ok is false if there is none. An error means that the
// document is not JSON, or that a key on the path is present twice.
func textAt(document []byte, path string) (text string, ok bool, err error) {
	span, err := spanAt(document, path)
	if err != nil || !span.Present() || document[span.Start] != '"' {
		return "", false, err
	}
	text, err = jsonspan.Unquote(span.Of(document))
	return text, err == nil, err //nolint:wrapcheck // the caller says what it means
}

func spanAt(document []byte, path string) (jsonspan.Span, error) {
	set := jsonspan.NewPathSet()
	slot := set.Add(path)
	spans, err := set.Walk(document)
	if err != nil {
		return jsonspan.Span{}, err //nolint:wrapcheck // the caller says what it means
	}
	return spans[slot], nil
}

// unpack replaces members that are texts by what the texts contain: a JSON object or array, or a
// token whose claims are one. Paths are decoded in their order, so that a path can lead into a
// document that an earlier one decoded. A member that contains neither is not changed. The
// signature of an inner token is not verified, because the outer signature covers its text.
func unpack(document []byte, paths []string) []byte {
	for _, path := range paths {
		span, err := spanAt(document, path)
		if err != nil || !span.Present() || document[span.Start] != '"' {
			continue
		}
		text, err := jsonspan.Unquote(span.Of(document))
		if err != nil {
			continue
		}
		inner := []byte(text)
		if !isObject(inner) {
			inner = decodeToken(text)
		}
		if inner != nil {
			document = slices.Concat(document[:span.Start], inner, document[span.End:])
		}
	}
	return document
}

// decodeToken returns the payload of a token without verifying it, or nil if the text is not a
// token with a JSON payload.
func decodeToken(text string) []byte {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return nil
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || !isObject(payload) {
		return nil
	}
	return payload
}

// isObject reports whether a text is a JSON object or array.
func isObject(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) > 0 && (text[0] == '{' || text[0] == '[') && json.Valid(text)
}
