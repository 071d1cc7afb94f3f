package jsonspan

import "encoding/binary"

// place is the next expected token of a document.
type place int

const (
	atKey   place = iota // the key of an object's member, white space before it included
	atValue              // a value, white space before it included
	atEnd                // after a value: a comma or the closing bracket of the enclosing value
)

// members skips members of an object that are written in the most common form: keys without
// escapes, values that are plain strings or whole numbers, one space or none after the colon, and
// nothing but an indentation before the key. It returns where it stopped and which token comes
// next. It leaves every other form to the functions of scan.go, so it never fails. It skips nearly
// all of a delivery. For speed it calls no other function except small inlined ones, which keeps
// its variables in registers, and reads eight bytes at a time.
func members(doc []byte, i int) (next int, what place) {
	for {
		at := i
		if at >= 0 && at < len(doc) && doc[at] == '\n' {
			at++
			for at >= 0 && at <= len(doc)-8 {
				if others := binary.LittleEndian.Uint64(doc[at:]) ^ ' '*ones; others != 0 {
					at += first(others)
					break
				}
				at += 8
			}
		}
		if at < 0 || at >= len(doc) || doc[at] != '"' {
			return i, atKey
		}
		at++
		for {
			if at < 0 || at > len(doc)-8 {
				return i, atKey
			}
			if found := stops(binary.LittleEndian.Uint64(doc[at:])); found != 0 {
				at += first(found)
				break
			}
			at += 8
		}
		if at < 0 || at > len(doc)-4 || doc[at] != '"' || doc[at+1] != ':' {
			return i, atKey
		}
		at += 2
		if doc[at] == ' ' {
			at++
		}
		i = at
		switch c := doc[at]; {
		case c == '"':
			at++
			for {
				if at < 0 || at > len(doc)-8 {
					return i, atValue
				}
				if found := stops(binary.LittleEndian.Uint64(doc[at:])); found != 0 {
					at += first(found)
					break
				}
				at += 8
			}
			if uint(at) >= uint(len(doc)) || doc[at] != '"' {
				return i, atValue
			}
			at++
		case c-'1' <= 8:
			at++
			for {
				if at < 0 || at > len(doc)-8 {
					return i, atValue
				}
				if found := nonDigits(binary.LittleEndian.Uint64(doc[at:])); found != 0 {
					at += first(found)
					break
				}
				at += 8
			}
			if uint(at) >= uint(len(doc)) || doc[at] == '.' || doc[at]|0x20 == 'e' {
				return i, atValue
			}
		default:
			return i, atValue
		}
		if uint(at) >= uint(len(doc)) || doc[at] != ',' {
			return at, atEnd
		}
		i = at + 1
	}
}
