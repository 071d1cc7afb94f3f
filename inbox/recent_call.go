package inbox

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"
)

// RecentCall says how the gate notes a call of an operation, so that its repetition under another key is
// recognised. The gate writes the note in the transaction that records the call: there is none of a call that was
// not recorded.
type RecentCall struct {
	// Hash is [RecentCallHash] of the call.
	Hash [sha256.Size]byte

	// Within is how long another call with the hash is suspected to be the same.
	Within time.Duration

	// Refuse has the gate refuse the call with [ErrSuspectedRepeat] if another one with its hash was
	// recorded within its window. Otherwise the gate records it, and marks its event.
	Refuse bool
}

// ErrSuspectedRepeat means that another call with the same arguments was recorded a moment ago under another key.
// Nothing was recorded. [operation.Store.RecentCall] says which call that is.
var ErrSuspectedRepeat = errors.New("the same arguments came a moment ago under another key")

// RecentCallHash is the same for two calls of one credential that ask one operation for the same.
// intent is the hash of the canonical payload. It is stored in the form of [InstallationSecret.StoredHash].
func RecentCallHash(credential, operation string, intent []byte) [sha256.Size]byte {
	var text []byte
	for _, part := range [][]byte{[]byte(credential), []byte(operation), intent} {
		text = binary.BigEndian.AppendUint32(text, uint32(len(part)))
		text = append(text, part...)
	}
	return sha256.Sum256(text)
}
