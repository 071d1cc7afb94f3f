package receiver

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/oncegate/oncegate/providers"
)

// never contains the headers that are never kept, because they are credentials,
// regardless of the provider's description.
var never = map[string]bool{
	"Authorization": true, "Proxy-Authorization": true, "Cookie": true, "Set-Cookie": true,
}

// keptHeaders are the headers stored with a delivery: those needed to read the body and
// to verify it once more, those that targets get, and no others.
func keptHeaders(p Provider, wanted []string) []string {
	kept := map[string]bool{"Content-Type": true, "Content-Encoding": true, "User-Agent": true}
	for _, name := range wanted {
		kept[http.CanonicalHeaderKey(name)] = true
	}
	if described, ok := p.(interface{ Spec() *providers.Spec }); ok {
		for _, name := range specHeaders(described.Spec()) {
			kept[http.CanonicalHeaderKey(name)] = true
		}
		// A credential is not a signature: everyone who reads it can use it.
		for _, name := range described.Spec().CredentialHeaders() {
			delete(kept, name)
		}
	}
	names := make([]string, 0, len(kept))
	for name := range kept {
		if !never[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// payloadHeaders are the headers that are recorded with the payload. The query of a
// delivery by GET is recorded as a form, so its content type is changed.
func payloadHeaders(req *providers.Request) http.Header {
	if req.Method != http.MethodGet || len(req.Body) > 0 {
		return req.Header
	}
	header := req.Header.Clone()
	header.Set("Content-Type", "application/x-www-form-urlencoded")
	return header
}

// numberedHeaders is how many headers of a numbered series are kept, which is how many
// are tried.
const numberedHeaders = 8

// verifyHeaders are the headers that one way of verifying reads.
func verifyHeaders(v *providers.VerifySpec) []string {
	var names []string
	for _, name := range v.Signature.Headers {
		// X-Signature-N means X-Signature-1, X-Signature-2 and so on.
		if stem, numbered := strings.CutSuffix(name, "-N"); numbered && v.Signature.From == "numbered-headers" {
			for n := 1; n <= numberedHeaders; n++ {
				names = append(names, stem+"-"+strconv.Itoa(n))
			}
			continue
		}
		names = append(names, name)
	}
	names = append(names, v.Key.Name)
	names = append(names, v.Timestamp.Header...)
	for _, part := range v.Signed {
		names = append(names, part.Header...)
	}
	for _, m := range v.Require {
		names = append(names, m.Header)
	}
	return append(names, v.Operation.Key, v.Operation.Name)
}

// specHeaders are the headers a provider reads.
func specHeaders(spec *providers.Spec) []string {
	names := verifyHeaders(&spec.Verify)
	for i := range spec.Modes {
		names = append(names, verifyHeaders(&spec.Modes[i].Verify)...)
		for _, m := range spec.Modes[i].When {
			names = append(names, m.Header)
		}
	}
	fields := slices.Concat(spec.Identity.Candidates, spec.Identity.Hash, spec.Type, spec.OccurredAt)
	for _, c := range spec.Sequence.Candidates {
		fields = append(fields, c.Key, c.Number)
	}
	names = append(names, fieldHeaders(fields)...)
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

func fieldHeaders(fields []providers.Field) (names []string) {
	for _, f := range fields {
		names = append(names, f.Header)
		names = append(names, fieldHeaders(f.Join)...)
	}
	return names
}

// marshalHeaders writes the kept headers as a JSON object of arrays, which reads
// back as an [http.Header].
func marshalHeaders(h http.Header, keep []string) []byte {
	out := make([]byte, 0, 512)
	out = append(out, '{')
	for _, name := range keep {
		values := h[name]
		if len(values) == 0 {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = appendString(out, name)
		out = append(out, ':', '[')
		for i, value := range values {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendString(out, value)
		}
		out = append(out, ']')
	}
	return append(out, '}')
}

func appendString(out []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(s)
			if err != nil { // a string always marshals
				return append(out, `""`...)
			}
			return append(out, quoted...)
		}
	}
	out = append(out, '"')
	out = append(out, s...)
	return append(out, '"')
}
