package providers

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// bodyWriting is one way in which software writes the same content again.
type bodyWriting struct {
	text  string
	write func(body []byte) ([]byte, bool)
}

// bodyChanges write the body as the sender may have written it before something
// on the way parsed it and wrote it again.
func (s *search) bodyChanges() []change {
	if s.base.p.spec.Verify.Family == familyStatic || s.base.p.IsOperation() {
		return nil
	}
	var out []change
	add := func(text string, write func(body []byte) ([]byte, bool)) {
		out = append(out, change{MistakeBody, text, func(t *trial) bool {
			body, ok := write(t.req.Body)
			if !ok || bytes.Equal(body, t.req.Body) {
				return false
			}
			t.req.Body = body
			return true
		}})
	}
	for _, w := range plainWritings() {
		add("the body is not what was signed: "+w.text, w.write)
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
				add(text, func(body []byte) ([]byte, bool) {
					body, ok := layout.write(body)
					if ok {
						body, ok = escaping.write(body)
					}
					return append(bytes.Clone(body), end...), ok
				})
			}
		}
	}
	add("the body was parsed and written again on the way: the signature fits the same JSON with its keys sorted", sortedKeys)
	add("the body was parsed and written again on the way: the signature fits the same JSON with the numbers as JavaScript writes them", shortNumbers)
	return out
}

func plainWritings() []bodyWriting {
	changed := func(f func(b []byte) []byte) func([]byte) ([]byte, bool) {
		return func(b []byte) ([]byte, bool) { return f(b), true }
	}
	return []bodyWriting{
		{"a line break was added at its end", changed(func(b []byte) []byte { return bytes.TrimSuffix(b, []byte("\n")) })},
		{"line breaks were added at its end", changed(func(b []byte) []byte { return bytes.TrimRight(b, "\r\n") })},
		{"a line break was taken off its end", changed(func(b []byte) []byte { return append(bytes.Clone(b), '\n') })},
		{"white space was added around it", changed(bytes.TrimSpace)},
		{"its line breaks were CR LF", changed(func(b []byte) []byte {
			return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
		})},
		{"its line breaks were LF", changed(func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")) })},
		{"a byte order mark was added", changed(func(b []byte) []byte { return bytes.TrimPrefix(b, []byte("\ufeff")) })},
		{"a byte order mark was taken off", changed(func(b []byte) []byte { return append([]byte("\ufeff"), b...) })},
		{"it was put into a JSON string", func(b []byte) ([]byte, bool) {
			var inner string
			err := json.Unmarshal(b, &inner)
			return []byte(inner), err == nil
		}},
		{"it was read as Latin-1 and written as UTF-8", latin1},
		{"the sender signs an empty body", changed(func([]byte) []byte { return nil })},
		{"the form was decoded and encoded again", reform(url.Values.Encode)},
		{"the form was decoded and encoded again (%20 for spaces)", reform(func(v url.Values) string {
			return strings.ReplaceAll(v.Encode(), "+", "%20")
		})},
		{"it was percent-decoded", changed(func(b []byte) []byte { return []byte(url.QueryEscape(string(b))) })},
		{"it was percent-encoded", func(b []byte) ([]byte, bool) {
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
	indent := func(with string) func([]byte) ([]byte, bool) {
		return func(b []byte) ([]byte, bool) {
			var out bytes.Buffer
			err := json.Indent(&out, bytes.TrimSpace(b), "", with)
			return out.Bytes(), err == nil
		}
	}
	compact := func(b []byte) ([]byte, bool) {
		var out bytes.Buffer
		err := json.Compact(&out, b)
		return out.Bytes(), err == nil
	}
	return []bodyWriting{
		{"without white space", compact},
		{"laid out as it is", func(b []byte) ([]byte, bool) { return bytes.TrimSpace(b), true }},
		{"with a space after every comma and colon, as Python writes it", func(b []byte) ([]byte, bool) {
			b, ok := compact(b)
			return spaced(b), ok
		}},
		{"indented by two spaces", indent("  ")},
		{"indented by four spaces", indent("    ")},
		{"indented by tabs", indent("\t")},
	}
}

func escapings() []bodyWriting {
	same := func(b []byte) ([]byte, bool) { return b, true }
	slashes := func(b []byte) []byte { return inStrings(b, escapeSlash) }
	return []bodyWriting{
		{"", same},
		{`, with / written as \/, as PHP does`, func(b []byte) ([]byte, bool) { return slashes(b), bytes.ContainsRune(b, '/') }},
		{`, with \/ written as /`, func(b []byte) ([]byte, bool) {
			return bytes.ReplaceAll(b, []byte(`\/`), []byte("/")), bytes.Contains(b, []byte(`\/`))
		}},
		{`, with letters beyond ASCII written as \u and their number`, func(b []byte) ([]byte, bool) { return inStrings(b, escapeUnicode), !ascii(b) }},
		{`, with \u and a number written as the letters`, func(b []byte) ([]byte, bool) { return unescapeUnicode(b), bytes.Contains(b, []byte(`\u`)) }},
		{`, with both / and letters beyond ASCII escaped, as PHP does`, func(b []byte) ([]byte, bool) {
			return inStrings(slashes(b), escapeUnicode), bytes.ContainsRune(b, '/') && !ascii(b)
		}},
		{`, with <, > and & written as \u and their number`, func(b []byte) ([]byte, bool) {
			var out bytes.Buffer
			json.HTMLEscape(&out, b)
			return out.Bytes(), bytes.ContainsAny(b, "<>&")
		}},
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

// spaced puts a space after every comma and colon of compact JSON.
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

// inStrings writes the characters inside JSON strings again.
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

// unescapeUnicode writes \uXXXX as letters, but for those JSON must escape.
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
		r, n := unit(b[i+2:]), 6
		if utf16.IsSurrogate(r) && i+12 <= len(b) && b[i+6] == '\\' && b[i+7] == 'u' {
			r, n = utf16.DecodeRune(r, unit(b[i+8:])), 12
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

// shortNumbers writes compact JSON with numbers in their shortest form: 10.50
// as 10.5, 1.0 as 1.
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
				out = strconv.AppendFloat(out, f, 'f', -1, 64)
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
