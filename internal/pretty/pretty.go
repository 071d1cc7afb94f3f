// Package pretty formats JSON for human readers. It works on the bytes: numbers keep their spelling, because a parser would
// change an id beyond 2^53. In strings it replaces the escapes that only make a text hard to read, such as \u00e9 and \/, by
// their characters. It masks the values that the caller hides.
package pretty

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/oncegate/oncegate/internal/visible"
)

// Options select what part of a document is shown.
type Options struct {
	// Hide reports whether to mask the value at a path, which consists of names and array indexes
	// joined by dots. A masked value is not descended into. A nil Hide masks nothing.
	Hide func(path string) bool

	// Limit is the maximum length of the text in bytes. Zero means [DefaultLimit].
	Limit int
}

// DefaultLimit is the default maximum length of the text of one document, in bytes.
const DefaultLimit = 256 << 10

// Document is a formatted document.
type Document struct {
	// Text has one member or element per line. It contains no terminal control characters and no
	// invisible ones.
	Text string

	// Masked is the number of values that the text shows as (masked).
	Masked int

	// Cut reports whether the text was cut off at the limit.
	Cut bool
}

// maxIndent is the depth from which lines are not indented further, so that a deeply nested
// document does not become a long text.
const maxIndent = 24

// JSON formats a document. ok is false if it is not JSON.
func JSON(doc []byte, o Options) (d Document, ok bool) {
	if !json.Valid(doc) {
		return d, false
	}
	if o.Limit == 0 {
		o.Limit = DefaultLimit
	}
	p := printer{doc: doc, Options: o}
	p.value("", 0)
	d = Document{Masked: p.masked, Cut: p.cut}
	d.Text = string(visible.JSON(p.out))
	return d, true
}

type printer struct {
	Options
	doc    []byte
	pos    int
	out    []byte
	masked int
	cut    bool
}

func (p *printer) space() {
	for p.pos < len(p.doc) && (p.doc[p.pos] == ' ' || p.doc[p.pos] == '\n' || p.doc[p.pos] == '\t' || p.doc[p.pos] == '\r') {
		p.pos++
	}
}

func (p *printer) writeText(text string) { p.write([]byte(text)...) }

func (p *printer) write(text ...byte) {
	if p.cut {
		return
	}
	if len(p.out)+len(text) > p.Limit {
		p.cut = true
		return
	}
	p.out = append(p.out, text...)
}

func (p *printer) line(depth int) {
	p.write('\n')
	p.write(bytes.Repeat([]byte("  "), min(depth, maxIndent))...)
}

// value writes the value at the current position of a valid document. It returns without reading
// once the text is cut off.
func (p *printer) value(path string, depth int) {
	p.space()
	if p.cut {
		return
	}
	if path != "" && p.Hide != nil && p.Hide(path) {
		p.skip()
		p.masked++
		p.writeText("(masked)")
		return
	}
	switch p.doc[p.pos] {
	case '{':
		p.members(path, depth, '}', func(int) string {
			name := p.text()
			p.write(readable(name)...)
			p.space()
			p.pos++ // the colon
			p.writeText(": ")
			return plain(name)
		})
	case '[':
		p.members(path, depth, ']', strconv.Itoa)
	default:
		p.scalar()
	}
}

// members writes the members or elements between two brackets. name reads the name of the next
// member, or formats the index.
func (p *printer) members(path string, depth int, end byte, name func(position int) string) {
	p.write(p.doc[p.pos])
	p.pos++
	for i := 0; ; i++ {
		if p.space(); p.doc[p.pos] == end {
			p.pos++
			if i > 0 {
				p.line(depth)
			}
			p.write(end)
			return
		}
		if i > 0 {
			p.pos++ // the comma
			p.write(',')
			p.space()
		}
		p.line(depth + 1)
		step := name(i)
		if path != "" {
			step = path + "." + step
		}
		p.value(step, depth+1)
		if p.cut {
			return
		}
	}
}

// scalar writes a string for people, or a number or literal unchanged.
func (p *printer) scalar() {
	start := p.pos
	p.skip()
	p.write(readable(p.doc[start:p.pos])...)
}

// readable replaces escapes of a string by the characters that they stand for. The string stays valid JSON with the same value:
// quotation marks, backslashes, control characters and single surrogates remain escapes. Other values have no escapes.
func readable(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted
	}
	out := make([]byte, 0, len(quoted))
	for i := 0; i < len(quoted); {
		r, width := escaped(quoted[i:])
		if width == 0 {
			out = append(out, quoted[i])
			i++
			continue
		}
		if r < ' ' || r == '"' || r == '\\' || r == utf8.RuneError {
			out = append(out, quoted[i:i+width]...)
		} else {
			out = utf8.AppendRune(out, r)
		}
		i += width
	}
	return out
}

// escaped returns the character of the escape with which valid JSON begins, and the length of the escape. The character is 0
// for an escape with a letter, such as \n, and [utf8.RuneError] for half of a character. The length is 0 if there is no escape.
func escaped(text []byte) (r rune, width int) {
	switch {
	case text[0] != '\\':
		return 0, 0
	case text[1] == '/':
		return '/', 2
	case text[1] != 'u':
		return 0, 2
	}
	r = hexRune(text[2:6])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(text) >= 12 && text[6] == '\\' && text[7] == 'u' {
		if pair := utf16.DecodeRune(r, hexRune(text[8:12])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

// hexRune reads four hexadecimal digits.
func hexRune(digits []byte) rune {
	n, _ := strconv.ParseUint(string(digits), 16, 16) // valid JSON has four of them
	return rune(n)
}

// text reads a JSON string, including its quotation marks.
func (p *printer) text() []byte {
	start := p.pos
	for p.pos++; p.doc[p.pos] != '"'; p.pos++ {
		if p.doc[p.pos] == '\\' {
			p.pos++
		}
	}
	p.pos++
	return p.doc[start:p.pos]
}

// skip skips one value.
func (p *printer) skip() {
	depth := 0
	for p.pos < len(p.doc) {
		switch p.doc[p.pos] {
		case '"':
			p.text()
			if depth == 0 {
				return
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return // the end of the object or array that contains a number or literal
			}
			if depth--; depth == 0 {
				p.pos++
				return
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return
			}
		}
		p.pos++
	}
}

// plain returns the decoded name of a member, as paths contain it.
func plain(quoted []byte) string {
	var name string
	if err := json.Unmarshal(quoted, &name); err != nil {
		return string(quoted)
	}
	return name
}
