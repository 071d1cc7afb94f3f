package receiver

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/oncegate/oncegate/providers"
)

// never kept: they are credentials, whatever a provider says about them.
var never = map[string]bool{
	"Authorization": true, "Proxy-Authorization": true, "Cookie": true, "Set-Cookie": true,
}

// keptHeaders are the headers stored with a delivery: what it takes to read the
// body and to verify it once more, and nothing else.
func keptHeaders(p Provider) []string {
	kept := map[string]bool{"Content-Type": true, "Content-Encoding": true, "User-Agent": true}
	if described, ok := p.(interface{ Spec() *providers.Spec }); ok {
		for _, name := range specHeaders(described.Spec()) {
			kept[http.CanonicalHeaderKey(name)] = true
		}
		// A credential is not a signature: whoever reads it can use it.
		for _, credential := range described.Spec().Verify.Credential {
			delete(kept, http.CanonicalHeaderKey(credential.Header))
			delete(kept, http.CanonicalHeaderKey(credential.Name))
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

// specHeaders are the headers a provider reads.
func specHeaders(spec *providers.Spec) []string {
	var names []string
	names = append(names, spec.Verify.Signature.Headers...)
	names = append(names, spec.Verify.Timestamp.Header...)
	for _, part := range spec.Verify.Signed {
		names = append(names, part.Header...)
	}
	names = append(names, spec.Verify.Operation.Key, spec.Verify.Operation.Name)
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
