package providers

import "strings"

const (
	keeperRoom = 128       // for the id, type and position of most events
	keeperLong = maxID / 4 // values from here on have an allocation of their own
)

// keeper makes the texts of a delivery, many to an allocation.
type keeper struct{ room strings.Builder }

// bytes returns the bytes as a text.
func (k *keeper) bytes(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > keeperLong {
		return string(b)
	}
	if k.room.Cap()-k.room.Len() < len(b) {
		k.room.Reset() // what was made of the room before keeps it
		k.room.Grow(keeperRoom)
	}
	start := k.room.Len()
	k.room.Write(b)
	return k.room.String()[start:]
}
