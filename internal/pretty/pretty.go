// Package pretty formats JSON for human readers. It works on the bytes: numbers and strings keep
// their spelling, because a parser would change an id beyond 2^53. It masks the values that the
// caller hides.
package pretty

import (
	"bytes"
	"encoding/json"
	"strconv"

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
			p.write(name...)
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

// scalar writes a string, number or literal unchanged.
func (p *printer) scalar() {
	start := p.pos
	p.skip()
	p.write(p.doc[start:p.pos]...)
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
