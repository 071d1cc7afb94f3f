package providers

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// header returns the only value of the first of the names that is present.
func header(req *Request, names []string) (value, name string, err *Refusal) {
	for _, n := range names {
		values := headerValues(req.Header, n)
		switch {
		case len(values) > 1:
			return "", n, refuse(ReasonMalformed, "header "+n+" is present "+count(len(values)))
		case len(values) == 1 && values[0] != "":
			if len(values[0]) > maxHeader {
				return "", n, refuse(ReasonMalformed, "header "+n+" is too long")
			}
			return values[0], n, nil
		}
	}
	return "", "", nil
}

// headerValues returns h.Values(name), but allocates nothing to canonicalise the name.
func headerValues(h http.Header, name string) []string {
	var canonical [64]byte
	if len(name) > len(canonical) {
		return h.Values(name)
	}
	letters := &capitals
	for i := range len(name) {
		c := letters[name[i]]
		if c == 0 {
			return h.Values(name)
		}
		canonical[i] = c
		letters = &smalls
		if c == '-' {
			letters = &capitals
		}
	}
	return h[string(canonical[:len(name)])]
}

// capitals and smalls map the bytes of header names to upper and lower case, for the first letter
// of a word and for the others. They contain 0 for bytes that only h.Values handles.
var capitals, smalls = func() (up, low [256]byte) {
	for c := range up {
		if c == '-' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' {
			up[c], low[c] = byte(unicode.ToUpper(rune(c))), byte(unicode.ToLower(rune(c)))
		}
	}
	return up, low
}()

func count(n int) string {
	if n == 2 {
		return "twice"
	}
	return "several times"
}

// signature is one decoded signature of a request.
type signature struct {
	scheme int
	sum    []byte
}

// signed contains the signatures of a request and their time.
type signed struct {
	where      string // for error details: "header X-Signature"
	signatures []signature
	timestamp  string
	at         *locator
	room       [1]signature // enough for the signatures of most requests
	bytes      [72]byte     // of the first signature; base64 decodes past its end
	used       bool
}

// sum returns a buffer for the bytes of a signature, or nil.
func (s *signed) sum(size int) []byte {
	if s.used || size == 0 || size > 64 {
		return nil
	}
	s.used = true
	return s.bytes[:0]
}

var signedRoom = sync.Pool{New: func() any { return new(signed) }}

// maxGroups is how many groups of signatures are tried.
const maxGroups = 4

// groups returns the signatures of a request, in groups that each have their own time. Most
// providers send one group.
func (p *Provider) groups(req *Request) ([]signed, *Refusal) {
	if p.spec.Verify.Signature.Format != "groups" {
		one := make([]signed, 1)
		if err := p.signatures(req, &one[0]); err != nil {
			return nil, err
		}
		return one, nil
	}
	head := signed{at: p.locator(req)}
	values, err := p.carriers(req, &head)
	if err != nil {
		return nil, err
	}
	var out []signed
	err = refuse(ReasonMalformed, head.where+" has no signature")
	for text := range strings.FieldsSeq(values[0]) {
		if len(out) == maxGroups {
			return nil, refuse(ReasonMalformed, head.where+" has more than 4 groups")
		}
		group := head
		if err = p.listed(&group, text); err == nil {
			out = append(out, group)
		}
	}
	if len(out) == 0 {
		return nil, err
	}
	return out, nil
}

// signatures reads the signatures of a request into out, which must be empty.
func (p *Provider) signatures(req *Request, out *signed) *Refusal {
	out.at = p.locator(req)
	out.signatures = out.room[:0]
	if p.spec.Verify.Signature.oneCarrier() {
		value, err := p.carrier(req, out)
		if err == nil {
			err = p.read(out, value)
		}
		return err
	}
	values, err := p.carriers(req, out)
	if err != nil {
		return err
	}
	for _, value := range values {
		err = p.read(out, value)
		// If there are several carriers, one that cannot be read is skipped.
		if err != nil && len(values) == 1 {
			return err
		}
	}
	if len(out.signatures) == 0 {
		return err
	}
	return nil
}

// read reads the signatures of one carrier.
func (p *Provider) read(out *signed, value string) *Refusal {
	switch p.spec.Verify.Signature.Format {
	case "list":
		return p.listed(out, value)
	case "positional":
		return p.positional(out, value)
	}
	return p.single(out, value)
}

// oneCarrier reports whether a single text contains all signatures of a request.
func (s *SignatureSpec) oneCarrier() bool {
	return s.From != "numbered-headers" && s.From != "all-headers" && !s.Repeats
}

// carriers returns the texts that contain signatures, and sets out.where.
func (p *Provider) carriers(req *Request, out *signed) ([]string, *Refusal) {
	spec := &p.spec.Verify.Signature
	switch {
	case spec.From == "numbered-headers":
		return p.numbered(req, out)
	case spec.From == "all-headers":
		return scattered(req, spec.Headers, out)
	case !spec.oneCarrier():
		return repeated(req, spec.Headers, out)
	}
	value, err := p.carrier(req, out)
	if err != nil {
		return nil, err
	}
	return []string{value}, nil
}

// carrier returns the single text that contains all signatures, and sets out.where.
func (p *Provider) carrier(req *Request, out *signed) (string, *Refusal) {
	spec := &p.spec.Verify.Signature
	var value string
	var found bool
	switch spec.From {
	case "json":
		out.where = "JSON " + spec.Path
		value, found = out.at.json(spec.Path)
	case "form":
		out.where = "form " + spec.Path
		value, found = out.at.formField(spec.Path)
	case "query":
		out.where = "query " + spec.Path
		value, found = out.at.queryField(spec.Path)
	default:
		var name string
		var err *Refusal
		if value, name, err = header(req, spec.Headers); err != nil {
			return "", err
		}
		found = name != ""
		switch {
		case !found:
			out.where = "header " + strings.Join(spec.Headers, " or ")
		case name == spec.Headers[0]:
			out.where = p.where
		default:
			out.where = "header " + name
		}
	}
	if !found || value == "" {
		return "", refuse(ReasonUnsigned, out.where+" is missing")
	}
	if len(value) > maxHeader {
		return "", refuse(ReasonMalformed, out.where+" is too long")
	}
	return value, nil
}

// scattered reads one signature from each of the headers that are present.
func scattered(req *Request, names []string, out *signed) ([]string, *Refusal) {
	out.where = "header " + strings.Join(names, " or ")
	var values []string
	for _, name := range names {
		value, present, err := header(req, []string{name})
		if err != nil {
			return nil, err
		}
		if present != "" {
			values = append(values, value)
		}
	}
	if len(values) == 0 {
		return nil, refuse(ReasonUnsigned, out.where+" is missing")
	}
	return values, nil
}

// maxNumber is the highest number of a numbered header. It can be high because one HMAC is compared
// with all of them.
const maxNumber = 100

// numbered reads X-Signature-1, X-Signature-2 and so on, up to the first that is missing.
func (p *Provider) numbered(req *Request, out *signed) ([]string, *Refusal) {
	pattern := p.spec.Verify.Signature.Headers[0]
	stem := strings.TrimSuffix(pattern, "N")
	out.where = "header " + pattern
	var values []string
	for n := 1; ; n++ {
		value, name, err := header(req, []string{stem + strconv.Itoa(n)})
		if err != nil {
			return nil, err
		}
		if name == "" {
			break
		}
		if len(values) == maxNumber {
			return nil, refuse(ReasonMalformed, out.where+" has more than 100 signatures")
		}
		values = append(values, value)
	}
	if len(values) == 0 {
		return nil, refuse(ReasonUnsigned, "header "+stem+"1 is missing")
	}
	return values, nil
}

// repeated reads a header that may be present several times.
func repeated(req *Request, names []string, out *signed) ([]string, *Refusal) {
	for _, name := range names {
		values := headerValues(req.Header, name)
		if len(values) == 0 || len(values) == 1 && values[0] == "" {
			continue
		}
		out.where = "header " + name
		if len(values) > maxSignatures {
			return nil, refuse(ReasonMalformed, out.where+" has more than 8 signatures")
		}
		for _, value := range values {
			if len(value) > maxHeader {
				return nil, refuse(ReasonMalformed, out.where+" is too long")
			}
		}
		return values, nil
	}
	return nil, refuse(ReasonUnsigned, "header "+strings.Join(names, " or ")+" is missing")
}

func (p *Provider) single(out *signed, value string) *Refusal {
	spec := &p.spec.Verify.Signature
	rest, ok := strings.CutPrefix(value, spec.Prefix)
	if !ok && !spec.PrefixOptional {
		return refuse(ReasonMalformed, out.where+" does not start with "+spec.Prefix)
	}
	rest, ok = strings.CutSuffix(rest, spec.Suffix)
	if !ok {
		return refuse(ReasonMalformed, out.where+" does not end in "+spec.Suffix)
	}
	if len(p.schemes) == 1 {
		return p.take(out, 0, rest)
	}
	// If there are several schemes, the signature's length selects the possible ones.
	known := len(out.signatures)
	for i := range p.schemes {
		if sum, ok := p.schemes[i].decode(rest, out.sum(p.schemes[i].size)); ok {
			out.signatures = append(out.signatures, signature{i, sum})
		}
	}
	if len(out.signatures) == known {
		return refuse(ReasonMalformed, out.where+" is not a signature in "+p.schemes[0].Encoding)
	}
	return nil
}

// take decodes one signature of a scheme.
func (p *Provider) take(out *signed, scheme int, text string) *Refusal {
	s := &p.schemes[scheme]
	sum, ok := s.decode(text, out.sum(s.size))
	if !ok {
		return refuse(ReasonMalformed, out.where+" is not a signature in "+s.Encoding)
	}
	if len(out.signatures) == maxSignatures {
		return refuse(ReasonMalformed, out.where+" has more than 8 signatures")
	}
	out.signatures = append(out.signatures, signature{scheme, sum})
	return nil
}

// positional parses the time, then the signatures. It skips a signature that cannot be decoded,
// because it may be for another kind of key.
func (p *Provider) positional(out *signed, value string) *Refusal {
	separator := p.spec.Verify.Signature.Separator
	stamp, rest, found := strings.Cut(value, separator)
	if !found {
		return refuse(ReasonMalformed, out.where+" has no signature after the timestamp")
	}
	if strings.Count(rest, separator) >= maxSignatures {
		return refuse(ReasonMalformed, out.where+" has more than 8 signatures")
	}
	out.timestamp = strings.Trim(stamp, " ")
	for item := range strings.SplitSeq(rest, separator) {
		_ = p.take(out, 0, strings.Trim(item, " "))
	}
	if len(out.signatures) == 0 {
		return refuse(ReasonMalformed, out.where+" has no readable signature")
	}
	return nil
}

// listed parses a list of labelled items. It skips unknown items, as the providers' own libraries
// do, because they may belong to a future scheme.
func (p *Provider) listed(out *signed, value string) *Refusal {
	spec := &p.spec.Verify.Signature
	known := false
	for value != "" {
		item := value
		if spec.Separator == "" {
			value = ""
		} else {
			item, value, _ = strings.Cut(value, spec.Separator)
		}
		label, rest, ok := strings.Cut(strings.Trim(item, " "), spec.Assign)
		if !ok {
			continue
		}
		if spec.TimestampLabel != "" && label == spec.TimestampLabel {
			if out.timestamp != "" {
				return refuse(ReasonMalformed, out.where+" has two timestamps")
			}
			out.timestamp = rest
			continue
		}
		for i := range p.schemes {
			if p.schemes[i].Label != label {
				continue
			}
			known = true
			sum, ok := p.schemes[i].decode(rest, out.sum(p.schemes[i].size))
			if !ok {
				continue
			}
			if len(out.signatures) == maxSignatures {
				return refuse(ReasonMalformed, out.where+" has more than 8 signatures")
			}
			out.signatures = append(out.signatures, signature{i, sum})
		}
	}
	switch {
	case !known:
		return refuse(ReasonMalformed, out.where+" has no "+p.labels()+" entry")
	case len(out.signatures) == 0:
		return refuse(ReasonMalformed, out.where+" has no readable "+p.labels()+" entry")
	}
	return nil
}

func (p *Provider) labels() string {
	var out []string
	for i := range p.schemes {
		out = append(out, p.schemes[i].Label)
	}
	return strings.Join(out, " or ")
}
