package providers

import "strings"

const (
	keeperRoom = 128       // enough for the id, type and position of most events
	keeperLong = maxID / 4 // longer values are allocated separately
)

// keeper allocates the texts of a delivery, several in one allocation.
type keeper struct{ room strings.Builder }

// bytes returns the bytes as a string.
func (k *keeper) bytes(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > keeperLong {
		return string(b)
	}
	if k.room.Cap()-k.room.Len() < len(b) {
		k.room.Reset() // earlier strings still reference the previous buffer
		k.room.Grow(keeperRoom)
	}
	start := k.room.Len()
	k.room.Write(b)
	return k.room.String()[start:]
}
