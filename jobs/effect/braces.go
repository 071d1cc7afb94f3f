package effect

import (
	"errors"
	"strings"
)

// Errors of [SplitBraces]. None quotes the text, because an address may contain a token.
var (
	ErrBraceOpen   = errors.New("a { has no }")
	ErrBraceClosed = errors.New("a } has no {")
	ErrBraceEmpty  = errors.New("there is no expression between { and }")
)

// SplitBraces returns the expressions in braces of a text, such as an address, in their order, and the literals before,
// between and after them, of which there is one more. Quotes and inner braces belong to an expression.
func SplitBraces(text string) (literals, expressions []string, err error) {
	start, depth := 0, 0
	var quote byte
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0:
			if c == '\\' {
				i++
			} else if c == quote {
				quote = 0
			}
		case depth > 0 && (c == '"' || c == '\''):
			quote = c
		case c == '{':
			if depth++; depth == 1 {
				literals = append(literals, text[start:i])
				start = i + 1
			}
		case c == '}' && depth == 0:
			return nil, nil, ErrBraceClosed
		case c == '}':
			if depth--; depth > 0 {
				continue
			}
			expression := strings.TrimSpace(text[start:i])
			if expression == "" {
				return nil, nil, ErrBraceEmpty
			}
			expressions = append(expressions, expression)
			start = i + 1
		}
	}
	if depth > 0 {
		return nil, nil, ErrBraceOpen
	}
	return append(literals, text[start:]), expressions, nil
}
