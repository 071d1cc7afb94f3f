package jsonspan

// What skipValue returns instead of an end if it fails.
const (
	notJSON = -1
	tooDeep = -2
)

// skipValue skips the value that begins at or after i and returns its end, notJSON or tooDeep. It
// keeps the kinds of the open brackets in one word, so it neither recurses nor allocates.
func skipValue(doc []byte, i, depth int) int {
	var objects uint64 // bit n: the bracket n levels out is a {
	open := 0
	what := atValue
	for {
		if what == atKey {
			if i, what = members(doc, i); what == atKey {
				if i = scanKey(doc, i); i < 0 {
					return notJSON
				}
				what = atValue
			}
		}
		if what == atValue {
			if i = SkipBlank(doc, i); i >= len(doc) {
				return notJSON
			}
			if c := doc[i]; c == '{' || c == '[' {
				if depth+open >= MaxDepth {
					return tooDeep
				}
				open++
				objects <<= 1
				if c == '{' {
					objects |= 1
					what = atKey
				}
				if i = SkipBlank(doc, i+1); i >= len(doc) || doc[i] != c+2 { // c+2 is the closing bracket of either kind
					continue
				}
			} else if i = scanScalar(doc, i); i < 0 {
				return notJSON
			}
		}
		// A value is complete. Close the objects and arrays that end here.
		for {
			if open == 0 {
				return i
			}
			if i = SkipBlank(doc, i); i >= len(doc) {
				return notJSON
			}
			c := doc[i]
			if c == ',' {
				break
			}
			if c != ']'+byte(objects&1)*('}'-']') {
				return notJSON
			}
			i++
			objects >>= 1
			open--
		}
		i++
		what = atValue
		if objects&1 != 0 {
			what = atKey
		}
	}
}

// scanScalar returns the end of the string, number or literal that begins at i, or -1 if there is
// none.
func scanScalar(doc []byte, i int) int {
	switch c := doc[i]; {
	case c == '"':
		return scanText(doc, i)
	case c == '-' || c-'0' <= 9:
		return scanNumber(doc, i)
	}
	return scanLiteral(doc, i)
}
