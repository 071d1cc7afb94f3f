package scheme

import (
	"encoding/base64"
	"encoding/json"
)

// coordinateSizes is the length of a coordinate on each curve, in bytes.
var coordinateSizes = map[string]int{"P-256": 32, "P-384": 48, "P-521": 66}

// padCoordinates returns a set of keys with leading zeros in front of the coordinates that are too
// short. RFC 7518, 6.2.1.2 requires the full length, and the library refuses a whole set for one
// shorter coordinate, but some senders leave the zeros out.
func padCoordinates(document []byte) []byte {
	var set struct {
		Keys []map[string]any `json:"keys"`
	}
	if json.Unmarshal(document, &set) != nil {
		return nil
	}
	for _, key := range set.Keys {
		curve, _ := key["crv"].(string)
		size := coordinateSizes[curve]
		for _, name := range []string{"x", "y"} {
			text, ok := key[name].(string)
			if value, err := base64.RawURLEncoding.DecodeString(text); ok && err == nil && len(value) < size {
				key[name] = base64.RawURLEncoding.EncodeToString(append(make([]byte, size-len(value)), value...))
			}
		}
	}
	out, _ := json.Marshal(set) // it was JSON before
	return out
}
