package providers

import (
	"bytes"
	"encoding/json"
	"math"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

// bodyWriting is one way in which software reserializes the same content.
type bodyWriting struct {
	text  string
	write func(body []byte) ([]byte, bool)
	// size returns an upper bound for the output, in bytes. nil means twice the body.
	size func(shape bodyShape) int64
}

func (w *bodyWriting) bound(shape bodyShape) int64 {
	if w.size == nil {
		return 2 * shape.bytes
	}
	return w.size(shape)
}

const (
	// copies is how many times the output is allocated: by a buffer that grows by doubling, and
	// once more at the end.
	copies = 3
	// These are the sizes of a value, an object and a form field in memory, in bytes.
	valueMemory, objectMemory, memberMemory = 64, 400, 250
	// shortNumber is the length of the longest number that JavaScript writes.
	shortNumber = 32
)

// bodyShape contains the counts that determine the cost of reserializing a body. They are counted
// in one pass without allocation, because a few thousand nested brackets become hundreds of
// megabytes when indented.
type bodyShape struct {
	bytes           int64
	lines, depths   int64 // of indented JSON: its lines, and the sum of their depths
	values, objects int64
	members         int64 // of a form
	slashes, html   int64 // characters that some software escapes
	beyondASCII     int64 // bytes of characters beyond ASCII
}

func shapeOf(body []byte) bodyShape {
	shape := bodyShape{bytes: int64(len(body)), members: 1}
	depth, quoted := int64(0), false
	for i := 0; i < len(body); i++ {
		c := body[i]
		switch {
		case c >= utf8.RuneSelf:
			shape.beyondASCII++
		case c == '&':
			shape.members++
			shape.html++
		case c == '<', c == '>':
			shape.html++
		case c == '/':
			shape.slashes++
		}
		switch {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			depth++
			shape.lines++
			shape.depths += depth
			shape.values++
			if c == '{' {
				shape.objects++
			}
		case c == ',', c == ':':
			shape.lines++
			shape.depths += depth
			shape.values++
		case c == '}', c == ']':
			depth = max(0, depth-1)
			shape.lines++
			shape.depths += depth
		}
	}
	return shape
}

// indented returns the size of the JSON with width bytes of indentation for each level.
func (s bodyShape) indented(width int64) int64 { return s.bytes + 2*s.lines + width*s.depths }

// decoded returns the size of the JSON as values in memory.
func (s bodyShape) decoded() int64 { return 2*s.bytes + valueMemory*s.values + objectMemory*s.objects }

// form returns the size of the form as values in memory.
func (s bodyShape) form() int64 { return 3*s.bytes + memberMemory*s.members }

// bodyChanges rewrite the body into forms that the sender may have signed, before a proxy parsed
// and reserialized it.
func (s *search) bodyChanges() []change {
	if s.base.p.spec.Verify.Family == familyStatic || s.base.p.IsOperation() {
		return nil
	}
	var out []change
	shape := shapeOf(s.base.req.Body)
	add := func(text string, size int64, write func(body []byte) ([]byte, bool)) {
		out = append(out, change{MistakeBody, text, copies * size, func(t *trial) bool {
			body, ok := write(t.req.Body)
			if !ok || bytes.Equal(body, t.req.Body) {
				return false
			}
			t.req.Body = body
			return true
		}})
	}
	for _, w := range plainWritings() {
		add("the body is not what was signed: "+w.text, w.bound(shape), w.write)
	}
	if !isJSON(s.base.req.Body) {
		return out
	}
	for _, layout := range layouts() {
		for _, escaping := range escapings() {
			for _, end := range []string{"", "\n"} {
				text := "the body was parsed and written again on the way: the signature fits the same JSON " + layout.text + escaping.text
				if end != "" {
					text += ", with a line break at its end"
				}
				add(text, layout.bound(shape)+escaping.bound(shape), func(body []byte) ([]byte, bool) {
					body, ok := layout.write(body)
					if ok {
						body, ok = escaping.write(body)
					}
					return append(bytes.Clone(body), end...), ok
				})
			}
		}
	}
	add("the body was parsed and written again on the way: the signature fits the same JSON with its keys sorted", shape.decoded(), sortedKeys)
	add("the body was parsed and written again on the way: the signature fits the same JSON with the numbers as JavaScript writes them", shape.bytes+shortNumber*shape.values, shortNumbers)
	return out
}

func plainWritings() []bodyWriting {
	changed := func(f func(b []byte) []byte) func([]byte) ([]byte, bool) {
		return func(b []byte) ([]byte, bool) { return f(b), true }
	}
	return []bodyWriting{
		{text: "a line break was added at its end", write: changed(func(b []byte) []byte { return bytes.TrimSuffix(b, []byte("\n")) })},
		{text: "line breaks were added at its end", write: changed(func(b []byte) []byte { return bytes.TrimRight(b, "\r\n") })},
		{text: "a line break was taken off its end", write: changed(func(b []byte) []byte { return append(bytes.Clone(b), '\n') })},
		{text: "white space was added around it", write: changed(bytes.TrimSpace)},
		{text: "its line breaks were CR LF", write: changed(func(b []byte) []byte {
			return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
		})},
		{text: "its line breaks were LF", write: changed(func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")) })},
		{text: "a byte order mark was added", write: changed(func(b []byte) []byte { return bytes.TrimPrefix(b, []byte("\ufeff")) })},
		{text: "a byte order mark was taken off", write: changed(func(b []byte) []byte { return append([]byte("\ufeff"), b...) })},
		{text: "it was put into a JSON string", write: func(b []byte) ([]byte, bool) {
			var inner string
			err := json.Unmarshal(b, &inner)
			return []byte(inner), err == nil
		}},
		{text: "it was read as Latin-1 and written as UTF-8", write: latin1},
		{text: "the sender signs an empty body", write: changed(func([]byte) []byte { return nil })},
		{text: "the form was decoded and encoded again", write: reform(url.Values.Encode), size: bodyShape.form},
		{text: "the form was decoded and encoded again (%20 for spaces)", write: reform(func(v url.Values) string {
			return strings.ReplaceAll(v.Encode(), "+", "%20")
		}), size: bodyShape.form},
		{text: "it was percent-decoded", write: changed(func(b []byte) []byte { return []byte(url.QueryEscape(string(b))) }),
			size: func(s bodyShape) int64 { return 3 * s.bytes }},
		{text: "it was percent-encoded", write: func(b []byte) ([]byte, bool) {
			plain, err := url.QueryUnescape(string(b))
			return []byte(plain), err == nil
		}},
	}
}

func isJSON(body []byte) bool { return len(body) > 0 && json.Valid(body) }

func latin1(b []byte) ([]byte, bool) {
	out := make([]byte, 0, len(b))
	for _, r := range string(b) {
		if r > 0xff {
			return nil, false
		}
		out = append(out, byte(r))
	}
	return out, true
}

func reform(encode func(url.Values) string) func([]byte) ([]byte, bool) {
	return func(b []byte) ([]byte, bool) {
		if !bytes.ContainsRune(b, '=') || bytes.HasPrefix(b, []byte("{")) {
			return nil, false
		}
		form, err := parseForm(b)
		return []byte(encode(form)), err == nil
	}
}

func layouts() []bodyWriting {
	indent := func(text, with string) bodyWriting {
		return bodyWriting{
			text: text,
			write: func(b []byte) ([]byte, bool) {
				var out bytes.Buffer
				err := json.Indent(&out, bytes.TrimSpace(b), "", with)
				return out.Bytes(), err == nil
			},
			size: func(s bodyShape) int64 { return s.indented(int64(len(with))) },
		}
	}
	compact := func(b []byte) ([]byte, bool) {
		var out bytes.Buffer
		err := json.Compact(&out, b)
		return out.Bytes(), err == nil
	}
	return []bodyWriting{
		{text: "without white space", write: compact},
		{text: "laid out as it is", write: func(b []byte) ([]byte, bool) { return bytes.TrimSpace(b), true }},
		{text: "with a space after every comma and colon, as Python writes it", write: func(b []byte) ([]byte, bool) {
			b, ok := compact(b)
			return spaced(b), ok
		}},
		indent("indented by two spaces", "  "),
		indent("indented by four spaces", "    "),
		indent("indented by tabs", "\t"),
	}
}

func escapings() []bodyWriting {
	same := func(b []byte) ([]byte, bool) { return b, true }
	slashes := func(b []byte) []byte { return inStrings(b, escapeSlash) }
	letters := func(s bodyShape) int64 { return s.bytes + 2*s.beyondASCII } // two bytes become six
	return []bodyWriting{
		{text: "", write: same, size: func(bodyShape) int64 { return 0 }},
		{text: `, with / written as \/, as PHP does`, write: func(b []byte) ([]byte, bool) { return slashes(b), bytes.ContainsRune(b, '/') },
			size: func(s bodyShape) int64 { return s.bytes + s.slashes }},
		{text: `, with \/ written as /`, write: func(b []byte) ([]byte, bool) {
			return bytes.ReplaceAll(b, []byte(`\/`), []byte("/")), bytes.Contains(b, []byte(`\/`))
		}},
		{text: `, with letters beyond ASCII written as \u and their number`,
			write: func(b []byte) ([]byte, bool) { return inStrings(b, escapeUnicode), !ascii(b) }, size: letters},
		{text: `, with \u and a number written as the letters`, write: func(b []byte) ([]byte, bool) { return unescapeUnicode(b), bytes.Contains(b, []byte(`\u`)) }},
		{text: `, with both / and letters beyond ASCII escaped, as PHP does`, write: func(b []byte) ([]byte, bool) {
			return inStrings(slashes(b), escapeUnicode), bytes.ContainsRune(b, '/') && !ascii(b)
		}, size: func(s bodyShape) int64 { return 2*(s.bytes+s.slashes) + 2*s.beyondASCII }},
		{text: `, with <, > and & written as \u and their number`, write: func(b []byte) ([]byte, bool) {
			var out bytes.Buffer
			json.HTMLEscape(&out, b)
			return out.Bytes(), bytes.ContainsAny(b, "<>&")
		}, size: func(s bodyShape) int64 { return s.bytes + 5*s.html }},
	}
}

func ascii(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// spaced adds a space after every comma and colon of compact JSON.
func spaced(b []byte) []byte {
	out := make([]byte, 0, len(b)+len(b)/8)
	quoted := false
	for i := 0; i < len(b); i++ {
		c := b[i]
		out = append(out, c)
		switch {
		case quoted && c == '\\' && i+1 < len(b):
			i++
			out = append(out, b[i])
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == ':'):
			out = append(out, ' ')
		}
	}
	return out
}

// inStrings rewrites the characters inside JSON strings.
func inStrings(b []byte, write func(out []byte, r rune, raw []byte) []byte) []byte {
	out := make([]byte, 0, len(b)+len(b)/8)
	quoted := false
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		switch {
		case quoted && r == '\\' && i+1 < len(b):
			out = append(out, b[i], b[i+1])
			i += 2
			continue
		case r == '"':
			quoted = !quoted
			out = append(out, '"')
		case quoted:
			out = write(out, r, b[i:i+n])
		default:
			out = append(out, b[i:i+n]...)
		}
		i += n
	}
	return out
}

func escapeSlash(out []byte, r rune, raw []byte) []byte {
	if r == '/' {
		return append(out, '\\', '/')
	}
	return append(out, raw...)
}

func escapeUnicode(out []byte, r rune, raw []byte) []byte {
	if r < utf8.RuneSelf || r == utf8.RuneError {
		return append(out, raw...)
	}
	units := []uint16{uint16(r)}
	if r > 0xffff {
		units = utf16.Encode([]rune{r})
	}
	for _, u := range units {
		const digits = "0123456789abcdef"
		out = append(out, '\\', 'u', digits[u>>12], digits[u>>8&15], digits[u>>4&15], digits[u&15])
	}
	return out
}

// unescapeUnicode replaces \uXXXX by the character, except for characters that JSON must escape.
func unescapeUnicode(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' || i+1 >= len(b) {
			out = append(out, b[i])
			continue
		}
		if b[i+1] != 'u' || i+6 > len(b) {
			out = append(out, b[i], b[i+1])
			i++
			continue
		}
		r, n := jsonspan.CodeUnit(b[i+2:]), 6
		if utf16.IsSurrogate(r) && i+12 <= len(b) && b[i+6] == '\\' && b[i+7] == 'u' {
			r, n = utf16.DecodeRune(r, jsonspan.CodeUnit(b[i+8:])), 12
		}
		if r < 0x20 || r == '"' || r == '\\' || r == utf8.RuneError {
			out = append(out, b[i:i+n]...)
		} else {
			out = utf8.AppendRune(out, r)
		}
		i += n - 1
	}
	return out
}

func sortedKeys(b []byte) ([]byte, bool) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return nil, false
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err == nil
}

// shortNumbers writes compact JSON with numbers in their shortest form: 10.50 as 10.5, 1.0 as 1.
func shortNumbers(b []byte) ([]byte, bool) {
	var compact bytes.Buffer
	if json.Compact(&compact, b) != nil {
		return nil, false
	}
	b = compact.Bytes()
	out := make([]byte, 0, len(b))
	quoted := false
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch {
		case quoted && c == '\\' && i+1 < len(b):
			out = append(out, c, b[i+1])
			i++
			continue
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '-' || c >= '0' && c <= '9'):
			end := i
			for end < len(b) && strings.IndexByte("+-.eE0123456789", b[end]) >= 0 {
				end++
			}
			if f, err := strconv.ParseFloat(string(b[i:end]), 64); err == nil && bytes.ContainsAny(b[i:end], ".eE") {
				out = appendNumber(out, f)
			} else {
				out = append(out, b[i:end]...)
			}
			i = end - 1
			continue
		}
		out = append(out, c)
	}
	return out, true
}

// appendNumber writes a number as JavaScript does: with an exponent only if it is very large or
// very small.
func appendNumber(out []byte, f float64) []byte {
	if size := math.Abs(f); size == 0 || size >= 1e-6 && size < 1e21 {
		return strconv.AppendFloat(out, f, 'f', -1, 64)
	}
	text := strconv.FormatFloat(f, 'e', -1, 64)
	text = strings.Replace(text, "e-0", "e-", 1)
	return append(out, strings.Replace(text, "e+0", "e+", 1)...)
}
