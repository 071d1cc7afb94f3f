package jsonspan

import "encoding/binary"

// place is what comes next in a document.
type place int

const (
	atKey   place = iota // the key of an object's member, white space before it included
	atValue              // a value, white space before it included
	atEnd                // what follows a value: a comma or the bracket that closes what it is in
)

// members passes over members of an object while they are written as most are: the
// keys without escapes, the values plain texts or whole numbers, one space or none
// after the colon and none but an indentation before the key. It says where it
// stopped and what comes there; what it does not know is left to the functions of
// scan.go, so it refuses nothing. Nearly all of a delivery is skipped here: it calls
// nothing, so that all it needs stays in registers, and looks at eight bytes at once.
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
