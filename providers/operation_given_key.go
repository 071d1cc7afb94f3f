package providers

import "strings"

// GivenKey is the idempotency key that the caller of an operation chose.
type GivenKey struct {
	// Key is the key without the quotes of a string, which the draft "The Idempotency-Key HTTP
	// Header Field" requires.
	Key string
}

// givenKey returns the key that the caller chose.
func (p *Provider) givenKey(req *Request) (*GivenKey, *Refusal) {
	name := p.spec.Verify.Operation.Key
	key, present, err := header(req, []string{name})
	if err != nil {
		return nil, unidentified(ProblemInvalidKey, err.Detail)
	}
	if present == "" {
		return nil, unidentified(ProblemMissingKey, "header "+name+" is missing")
	}
	key = unquoteKey(key)
	if key == "" {
		return nil, unidentified(ProblemMissingKey, "header "+name+" is an empty string")
	}
	for i := range len(key) {
		if key[i] <= 0x20 || key[i] >= 0x7f {
			return nil, unidentified(ProblemInvalidKey, "header "+name+" has characters other than visible ASCII")
		}
	}
	return &GivenKey{Key: key}, nil
}

// KeyForms returns the two forms in which an idempotency key may be sent and recorded: bare, and
// quoted as a string of a structured field.
func KeyForms(value string) (bare, quoted string) {
	bare = unquoteKey(value)
	return bare, quoteKey(bare)
}

// unquoteKey decodes a string of a structured field (RFC 9651, 3.3.3). It returns any other value
// unchanged.
func unquoteKey(value string) string {
	inner, opened := strings.CutPrefix(value, `"`)
	inner, closed := strings.CutSuffix(inner, `"`)
	if !opened || !closed {
		return value
	}
	var b strings.Builder
	for i := 0; i < len(inner); i++ {
		switch c := inner[i]; c {
		case '"':
			return value
		case '\\':
			if i++; i == len(inner) || inner[i] != '"' && inner[i] != '\\' {
				return value
			}
			b.WriteByte(inner[i])
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// quoteKey returns the quoted form from which unquoteKey returns the key.
func quoteKey(key string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}
