package providers

import "strings"

// GivenKey is the idempotency key that the caller of an operation chose.
type GivenKey struct {
	// Key is the key itself, without the quotes of the draft "The Idempotency-Key HTTP Header
	// Field", which makes a string of it.
	Key string

	// FormerID is the event id that the key made in quotes before the quoted and the bare form
	// were one; empty if that id would be too long.
	FormerID string
}

// givenKey is the key that the caller chose, within the scope of its credential and operation.
func (p *Provider) givenKey(req *Request, scope string) (*GivenKey, *Refusal) {
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
	given := &GivenKey{Key: key}
	if former := scope + quoteKey(key); len(former) <= maxID {
		given.FormerID = former
	}
	return given, nil
}

// KeyForms gives the two forms in which one idempotency key may be sent, and may be recorded: bare, and in
// quotes as a string of a structured field.
func KeyForms(value string) (bare, quoted string) {
	bare = unquoteKey(value)
	return bare, quoteKey(bare)
}

// unquoteKey gives what a string of a structured field (RFC 9651, 3.3.3) says; what is no such
// string is as it stands.
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

// quoteKey is the string that unquoteKey understands as the key.
func quoteKey(key string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}
