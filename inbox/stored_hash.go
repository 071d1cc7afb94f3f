package inbox

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// keyedHash is the first byte of a stored hash with a key. Stored: never change.
const keyedHash = 1

// StoredHash returns the form in which a hash of content is stored: the SHA-256 itself or, with a secret, the byte 1 and an HMAC
// of it. Without the secret, nobody can verify guessed content with the HMAC. It is an HMAC of the hash and not of the content, so that
// [prune.Reseal] can convert a row whose content is gone. The longer form says of itself that it has a key, so no column has to.
// The secret is never rotated, because a hash that was replaced would not recognise duplicates. Stored: never change.
func (s InstallationSecret) StoredHash(sum []byte) []byte {
	if s.Value == nil || sum == nil {
		return sum
	}
	mac := hmac.New(sha256.New, s.Value)
	mac.Write([]byte("oncegate content\x00"))
	mac.Write(sum)
	return mac.Sum(append(make([]byte, 0, 1+sha256.Size), keyedHash))
}

// FormerHash returns the form in which the hash may be stored from before there was a keyring; nil if that is the form in which it
// is stored now.
func (s InstallationSecret) FormerHash(sum []byte) []byte {
	if s.Value == nil {
		return nil
	}
	return sum
}

// IsStoredHash reports whether stored is a stored form of the SHA-256: the one under the secret, or the hash itself, which
// was stored before there was a keyring.
func (s InstallationSecret) IsStoredHash(stored, sum []byte) bool {
	return sum != nil && (bytes.Equal(stored, sum) || s.Value != nil && bytes.Equal(stored, s.StoredHash(sum)))
}

// HashText returns a stored hash in hex, as ids contain it. It is as long with a key as without one.
func HashText(stored []byte) string {
	return hex.EncodeToString(stored[max(len(stored)-sha256.Size, 0):]) // without the first byte of one with a key
}

// UnusableID returns the id under which an unusable event is recorded, whose bytes have the stored hash.
func UnusableID(stored []byte) string { return "~" + HashText(stored) }

// HashHasKey reports whether a stored hash is one with a key.
func HashHasKey(stored []byte) bool { return len(stored) > sha256.Size }

// Logged returns an event id as the log shows it. With a secret, it lacks the hashes of content that it may contain, as they are
// not stored without a key either.
func (s InstallationSecret) Logged(eventID string) string {
	if s.Value == nil {
		return eventID
	}
	return WithoutHashes(eventID)
}
