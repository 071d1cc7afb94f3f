// Package pretty lays JSON out for people, by its bytes. Numbers and texts stay as they are written, since a reader that
// parses them shows another number for an id beyond 2^53. What is not to be seen is masked on the way.
package pretty

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/oncegate/oncegate/visible"
)

// Options say what of a document is shown.
type Options struct {
	// Hide reports whether the value at a path, names and positions joined by dots, is masked. What lies below it is not
	// shown either. Nil hides nothing.
	Hide func(path string) bool

	// Shape shows names and the kinds of values, and no value.
	Shape bool

	// Limit is how many bytes of text are made; 0 is [DefaultLimit].
	Limit int
}

// DefaultLimit bounds the text of one document, in bytes.
const DefaultLimit = 256 << 10

// Document is a document that is laid out.
type Document struct {
	// Text has one member or element a line. It holds no character that a terminal obeys or a browser hides.
	Text string

	// Masked is how many values stand there as (masked).
	Masked int

	// Cut says that the text ends before the document.
	Cut bool
}

// maxIndent is the depth below which lines are not indented further, so that a deep document has no long text.
const maxIndent = 24

// JSON lays a document out. ok is false if it is not JSON.
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

// value writes the value at the place, which is valid JSON. Once the text is cut nothing more is read.
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

// members writes what stands between two brackets. name reads the name of the next value, or gives its position.
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

// scalar writes a text, a number or a word as it stands there, or what kind it is.
func (p *printer) scalar() {
	start := p.pos
	p.skip()
	raw := p.doc[start:p.pos]
	if !p.Shape {
		p.write(raw...)
		return
	}
	switch raw[0] {
	case '"':
		p.writeText("(text)")
	case 't', 'f':
		p.writeText("(true or false)")
	case 'n':
		p.writeText("null")
	default:
		p.writeText("(number)")
	}
}

// text reads a quoted text with its quotes.
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

// skip passes over a value.
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
				return // the end of what holds a number or a word
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

// plain is the name of a member as paths have it.
func plain(quoted []byte) string {
	var name string
	if err := json.Unmarshal(quoted, &name); err != nil {
		return string(quoted)
	}
	return name
}
