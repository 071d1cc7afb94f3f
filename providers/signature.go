package providers

import (
	"net/http"
	"strings"
)

// header returns the one value of the first of the names that is present.
func header(req *Request, names []string) (value, name string, err *Refusal) {
	for _, n := range names {
		values := req.Header[http.CanonicalHeaderKey(n)]
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

func count(n int) string {
	if n == 2 {
		return "twice"
	}
	return "several times"
}

// signature is one signature of a request, decoded.
type signature struct {
	scheme int
	sum    []byte
}

// signed is what the signature header says.
type signed struct {
	header     string
	signatures []signature
	timestamp  string
}

// signatures reads the signature header.
func (p *Provider) signatures(req *Request) (signed, *Refusal) {
	spec := &p.spec.Verify.Signature
	value, name, err := header(req, spec.Headers)
	if err != nil {
		return signed{}, err
	}
	if name == "" {
		return signed{}, refuse(ReasonUnsigned, "header "+strings.Join(spec.Headers, " or ")+" is missing")
	}
	out := signed{header: name}
	if spec.Format == "list" {
		err = p.listed(&out, value)
	} else {
		err = p.single(&out, value)
	}
	if err != nil {
		return signed{}, err
	}
	return out, nil
}

func (p *Provider) single(out *signed, value string) *Refusal {
	spec := &p.spec.Verify.Signature
	rest, ok := strings.CutPrefix(value, spec.Prefix)
	if !ok {
		return refuse(ReasonMalformed, "header "+out.header+" does not start with "+spec.Prefix)
	}
	scheme := &p.schemes[0]
	sum, ok := scheme.decode(rest)
	if !ok {
		return refuse(ReasonMalformed, "header "+out.header+" is not a signature in "+scheme.Encoding)
	}
	out.signatures = append(out.signatures, signature{0, sum})
	return nil
}

// listed reads a list of labelled items. Items that are not understood are
// passed over, as the providers' own libraries do: they may announce a scheme of
// the future.
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
				return refuse(ReasonMalformed, "header "+out.header+" has two timestamps")
			}
			out.timestamp = rest
			continue
		}
		for i := range p.schemes {
			if p.schemes[i].Label != label {
				continue
			}
			known = true
			sum, ok := p.schemes[i].decode(rest)
			if !ok {
				continue
			}
			if len(out.signatures) == maxSignatures {
				return refuse(ReasonMalformed, "header "+out.header+" has more than 8 signatures")
			}
			out.signatures = append(out.signatures, signature{i, sum})
		}
	}
	switch {
	case !known:
		return refuse(ReasonMalformed, "header "+out.header+" has no "+p.labels()+" entry")
	case len(out.signatures) == 0:
		return refuse(ReasonMalformed, "header "+out.header+" has no readable "+p.labels()+" entry")
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
