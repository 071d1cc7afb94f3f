package inbox

import "crypto/rand"

// NewToken makes a lease token: random, since it is compared and never sorted.
func NewToken() ID {
	var id ID
	if _, err := rand.Read(id[:]); err != nil {
		panic("inbox: the system has no randomness: " + err.Error()) // crypto/rand never returns an error since Go 1.24
	}
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}
