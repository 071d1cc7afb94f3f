package providers

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

// maxRecipe is how many fields a recipe may have.
const maxRecipe = 8

// recipe derives the key of an operation from the call's content instead of the header of the
// idempotency key.
type recipe struct {
	names    []string
	fields   []field
	defaults []string    // of the fields; empty means no default
	read     *extraction // parses the body to find the fields
}

// WithRecipe returns a copy of an operation provider that derives the key of each call from the
// fields, in their order: header.<Name>, body.<path>, form.<name> or query.<name>. It refuses a
// call without one of them as unidentified, unless the field has a default: body.currency=EUR. A
// field that is called version, such as body.version, has the default 1. Numbers are compared by
// value: 7, 7.0 and 70e-1 are equal.
func (p *Provider) WithRecipe(fields []string) (*Provider, error) {
	if !p.IsOperation() {
		return nil, fmt.Errorf("provider %s: only operations have a recipe for their keys", p.name)
	}
	if len(fields) == 0 || len(fields) > maxRecipe {
		return nil, fmt.Errorf("a recipe has 1 to %d fields, not %d", maxRecipe, len(fields))
	}
	paths := jsonspan.NewPathSet()
	r := &recipe{}
	var errs []error
	seen := map[string]bool{}
	for _, text := range fields {
		name, ifMissing := splitDefault(text)
		f, err := recipeField(name)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("field %q %w", name, err))
			continue
		case seen[name]:
			errs = append(errs, fmt.Errorf("field %q is there twice", name))
			continue
		}
		seen[name] = true
		r.names, r.defaults = append(r.names, name), append(r.defaults, ifMissing)
		r.fields = append(r.fields, compileField(f, paths, paths))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	r.read = &extraction{item: paths, envelope: paths, format: "any", form: true, split: -1}
	out := *p
	out.recipe = r
	return &out, nil
}

// splitDefault separates a field of a recipe into its name and its default.
func splitDefault(text string) (name, ifMissing string) {
	name, ifMissing, given := strings.Cut(text, "=")
	if !given && (strings.HasSuffix(name, ".version") || strings.HasSuffix(name, ".Version")) {
		ifMissing = "1"
	}
	return name, ifMissing
}

func recipeField(name string) (Field, error) {
	from, rest, ok := strings.Cut(name, ".")
	if !ok || rest == "" {
		return Field{}, errors.New("is none of header.<Name>, body.<path>, form.<name>, query.<name>")
	}
	switch from {
	case "header":
		if strings.ContainsFunc(rest, func(r rune) bool {
			return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		}) {
			return Field{}, errors.New("does not name a header")
		}
		if strings.EqualFold(rest, "Authorization") || strings.EqualFold(rest, "Cookie") {
			return Field{}, errors.New("is a credential, which is never stored")
		}
		return Field{Header: rest}, nil
	case "body":
		for part := range strings.SplitSeq(rest, ".") {
			if part == "" || part == "*" || part == "$" || strings.ContainsAny(part, "[]\"") || strings.Count(rest, ".") >= jsonspan.MaxDepth/2 {
				return Field{}, errors.New("is not a JSON path of names joined by dots")
			}
		}
		return Field{JSON: rest}, nil
	case "form":
		return Field{Form: rest}, nil
	case "query":
		return Field{Query: rest}, nil
	}
	return Field{}, errors.New("is none of header.<Name>, body.<path>, form.<name>, query.<name>")
}

// key returns the key, at most limit bytes of visible ASCII. Two calls have the same key only if
// all fields are equal, because separators inside parts are escaped and a key that is too long is
// replaced by a digest of the whole key.
func (r *recipe) key(req *Request, limit int) (string, *Refusal) {
	s := source{req: req, envelope: req.Body}
	if err := r.read.open(&s); err != nil {
		return "", unidentified(ProblemInvalidKey, "body: "+err.Error())
	}
	s.item, s.itemSpans = s.envelope, s.envelopeSpans
	var b strings.Builder
	for i := range r.fields {
		value, ok, err := r.value(i, &s)
		if err != nil {
			return "", unidentified(ProblemInvalidKey, "field "+r.names[i]+" of the key: "+err.Error())
		}
		if !ok || value == "" {
			value = r.defaults[i]
		}
		if value == "" {
			return "", unidentified(ProblemMissingKey, "field "+r.names[i]+" of the key is missing"+misplaced(req))
		}
		if i > 0 {
			b.WriteByte(':')
		}
		escapeKey(&b, value)
	}
	return shortened(b.String(), limit), nil
}

// value reads a field. It normalises a number with a fraction or an exponent, so that equal numbers
// have the same key.
func (r *recipe) value(i int, s *source) (string, bool, error) {
	f := &r.fields[i]
	if f.JSON != "" && s.itemSpans != nil && s.itemSpans[f.slot].Present() {
		raw := s.itemSpans[f.slot].Of(s.item)
		if c := raw[0]; (c == '-' || c-'0' <= 9) && bytes.ContainsAny(raw, ".eE") {
			if len(raw) > maxID {
				return "", false, errors.New("a number that is too long")
			}
			return string(jsonspan.Decimal(raw)), true, nil
		}
	}
	return f.read(s, false)
}

// misplaced returns advice for a JSON body that arrived with the content type of a form, which curl
// sends by default.
func misplaced(req *Request) string {
	if JSONAsForm(req.Header, req.Body) {
		return ": the body looks like JSON, and came as a form; send Content-Type: application/json"
	}
	return ""
}

// JSONAsForm reports whether a body that looks like a JSON object or array arrived with the content
// type of a form.
func JSONAsForm(h http.Header, body []byte) bool {
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	start := bytes.TrimLeft(body, " \t\r\n")
	return media == "application/x-www-form-urlencoded" && len(start) > 0 && (start[0] == '{' || start[0] == '[')
}

// escapeKey writes a part in visible ASCII without separators. It also escapes percent signs, so
// that no part looks like a digest.
func escapeKey(b *strings.Builder, value string) {
	for i := range len(value) {
		if c := value[i]; c > 0x20 && c < 0x7f && c != ':' && c != '%' {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		if value[i] < 0x10 {
			b.WriteByte('0')
		}
		b.WriteString(strconv.FormatUint(uint64(value[i]), 16))
	}
}

// Caller verifies the credential of a request that contains no operation, such as a query for the
// result of an earlier one. The error is always a *[Refusal].
func (p *Provider) Caller(req *Request, secrets []Secret) (credential string, err error) {
	if !p.IsOperation() {
		return "", refuse(ReasonUnsigned, "the provider has no callers")
	}
	_, credential, refusal := p.verifyCredential(req, secrets)
	if refusal != nil {
		return "", refusal
	}
	return credential, nil
}
