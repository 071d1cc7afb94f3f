package providers

import (
	"bytes"
	"encoding/binary"
)

// What skipValue says instead of an end.
const (
	notJSON = -1
	tooDeep = -2
)

var literalTrue, literalFalse, literalNull = []byte("true"), []byte("false"), []byte("null")

// skipValue passes over the value that begins at or after start and returns its
// end. It keeps the kinds of the open brackets in one word, so it neither recurses
// nor allocates. Most of a delivery is skipped: what is common is read in this one
// loop and everything else by the functions of scan.go. Where a short text or
// number ends is found byte by byte, since the processor guesses that well and
// goes on meanwhile, while it would have to wait for an index that is computed.
func skipValue(doc []byte, start, depth int) int {
	i := uint(start)   // unsigned, so that one comparison bounds it
	var objects uint64 // bit n: the bracket n levels out is a {
	open := 0
	inObject := false
	for {
		if inObject { // a key and its colon
			if i >= uint(len(doc)) {
				return notJSON
			}
			if doc[i] != '"' {
				if i = uint(blank(doc, int(i))); i >= uint(len(doc)) || doc[i] != '"' {
					return notJSON
				}
			}
			key := i
			i++
			for i < uint(len(doc)) && plain[doc[i]] {
				i++
			}
			if i+1 < uint(len(doc)) && doc[i] == '"' && doc[i+1] == ':' {
				i += 2
			} else {
				end := scanKey(doc, int(key))
				if end < 0 {
					return notJSON
				}
				i = uint(end)
			}
		}
		if i >= uint(len(doc)) {
			return notJSON
		}
		if doc[i] <= ' ' {
			if i = uint(blank(doc, int(i))); i >= uint(len(doc)) {
				return notJSON
			}
		}
		switch c := doc[i]; {
		case c == '"':
			i++
			for i+8 <= uint(len(doc)) && stops(binary.LittleEndian.Uint64(doc[i:])) == 0 {
				i += 8
			}
			for i < uint(len(doc)) && plain[doc[i]] {
				i++
			}
			if i < uint(len(doc)) && doc[i] == '"' {
				i++
				break
			}
			end := scanText(doc, int(i-1))
			if end < 0 {
				return notJSON
			}
			i = uint(end)
		case c-'1' <= 8:
			i++
			for i < uint(len(doc)) && doc[i]-'0' <= 9 {
				i++
			}
			if i < uint(len(doc)) && (doc[i] == '.' || doc[i]|0x20 == 'e') {
				end := scanFraction(doc, int(i))
				if end < 0 {
					return notJSON
				}
				i = uint(end)
			}
		case c == '{' || c == '[':
			if depth+open >= maxDepth {
				return tooDeep
			}
			inObject = c == '{'
			objects <<= 1
			if inObject {
				objects |= 1
			}
			open++
			i++
			if i < uint(len(doc)) && doc[i] <= ' ' {
				i = uint(blank(doc, int(i)))
			}
			if i < uint(len(doc)) && doc[i] == c+2 { // the closing bracket of either kind
				i++
				open--
				objects >>= 1
				break
			}
			continue
		case c == '-' || c == '0':
			end := scanNumber(doc, int(i))
			if end < 0 {
				return notJSON
			}
			i = uint(end)
		case c == 't' && bytes.HasPrefix(doc[i:], literalTrue), c == 'n' && bytes.HasPrefix(doc[i:], literalNull):
			i += 4
		case c == 'f' && bytes.HasPrefix(doc[i:], literalFalse):
			i += 5
		default:
			return notJSON
		}
		// A value is complete; close what it completes.
		for {
			if open == 0 {
				return int(i)
			}
			if i >= uint(len(doc)) {
				return notJSON
			}
			c := doc[i]
			if c == ',' {
				i++
				break
			}
			if c <= ' ' {
				if i = uint(blank(doc, int(i))); i >= uint(len(doc)) {
					return notJSON
				}
				c = doc[i]
			}
			i++
			if c == ',' {
				break
			}
			if c != ']'+byte(objects&1)*('}'-']') {
				return notJSON
			}
			objects >>= 1
			open--
		}
		inObject = objects&1 != 0
	}
}
