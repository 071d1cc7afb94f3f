// Package seal encrypts the content that the tables keep of deliveries: bodies,
// headers, rendered requests, results and refusals. It knows no storage: its functions
// get bytes and the place where they are stored, and return bytes.
//
// A value is sealed with AES-256-GCM under a separate key, derived from the keyring's
// key and the value's place by HMAC-SHA-256. So no number of values sealed under one
// key comes near the 2^32 that random nonces allow a GCM key (NIST SP 800-38D, section
// 8.3), and a value that is moved to another row or column does not open there. The
// stored form is
//
//	version (1 byte, 1) | key id (4 bytes, big endian) | nonce (12) | ciphertext and tag
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// Place is where a value is stored. It is authenticated with the value, so names of
// tables and columns are never changed. Stored: never change.
type Place struct {
	Table, Column string

	// Row is the uuid of the row.
	Row [16]byte

	// Item distinguishes the rows of one uuid; 0 if there is only one.
	Item int64
}

// ErrLost is returned by [Keyring.Open] for a value under a key that the keyring does
// not have, or if there is no keyring. The row is unreadable until the key is back, but
// not damaged.
var ErrLost = errors.New("its key is not in the keyring")

// LostError is how [Keyring.Open] returns [ErrLost]: it says which key is missing.
type LostError struct {
	Place Place

	// Key is the id of the key that the keyring lacks.
	Key int32
}

// Error names the place and the key.
func (e *LostError) Error() string {
	return fmt.Sprintf("%s.%s is sealed with key %d: %v", e.Place.Table, e.Place.Column, e.Key, ErrLost)
}

// Is makes a LostError an [ErrLost].
func (e *LostError) Is(target error) bool { return target == ErrLost }

// ErrDamaged is returned by [Keyring.Open] for a value that its key does not
// open: it was changed, moved, or sealed under another key of the same id.
var ErrDamaged = errors.New("it does not open with its key")

const (
	version = 1
	header  = 1 + 4
	nonce   = 12
	tag     = 16

	// Overhead is how many bytes a sealed value is longer than its plain one.
	Overhead = header + nonce + tag
)

// Seal encrypts a value for its place under the active key and returns the id of that
// key. Without a keyring, or for nil, it returns the value itself and no key: it is
// then stored in plain. Values that share one key id column are sealed with one [Ring],
// because the keyring may be reloaded in between.
func (r *Keyring) Seal(place Place, plain []byte) (sealed []byte, keyID *int32) {
	return r.Ring().Seal(place, plain)
}

// Seal is [Keyring.Seal] with these keys. A nil Ring seals nothing.
func (r *Ring) Seal(place Place, plain []byte) (sealed []byte, keyID *int32) {
	if r == nil || plain == nil {
		return plain, nil
	}
	key := r.active
	out := make([]byte, header+nonce, len(plain)+Overhead)
	out[0] = version
	binary.BigEndian.PutUint32(out[1:header], uint32(key.ID))
	if _, err := rand.Read(out[header:]); err != nil {
		panic("seal: the system has no randomness: " + err.Error()) // crypto/rand never returns an error since Go 1.24
	}
	return aead(key, place).Seal(out, out[header:], plain, additional(place, key.ID)), &key.ID
}

// Open decrypts a value that was stored at place under the key keyID; a nil keyID means
// that it is plain, and Open returns it unchanged. It returns [ErrLost] (as a
// [LostError]) or [ErrDamaged], with the key's id and the place's name, never with
// content.
func (r *Keyring) Open(place Place, keyID *int32, stored []byte) ([]byte, error) {
	if keyID == nil || stored == nil {
		return stored, nil
	}
	key, ok := r.find(*keyID)
	if !ok {
		return nil, &LostError{Place: place, Key: *keyID}
	}
	if len(stored) < Overhead || stored[0] != version || binary.BigEndian.Uint32(stored[1:header]) != uint32(key.ID) {
		return nil, fmt.Errorf("%s.%s is sealed with key %d: %w", place.Table, place.Column, *keyID, ErrDamaged)
	}
	plain, err := aead(key, place).Open([]byte{}, stored[header:header+nonce], stored[header+nonce:], additional(place, key.ID))
	if err != nil {
		return nil, fmt.Errorf("%s.%s is sealed with key %d: %w", place.Table, place.Column, *keyID, ErrDamaged)
	}
	return plain, nil
}

// aead is the cipher of one place.
func aead(key Key, place Place) cipher.AEAD {
	mac := hmac.New(sha256.New, key.secret[:])
	mac.Write([]byte("oncegate seal 1\x00"))
	mac.Write(additional(place, key.ID))
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		panic("seal: " + err.Error()) // 32 bytes are a key of AES-256
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic("seal: " + err.Error()) // AES has the block size GCM asks for
	}
	return gcm
}

// additional is the place and the key's id, each part after its length, so that no two
// places have the same encoding.
func additional(place Place, keyID int32) []byte {
	out := make([]byte, 0, 64)
	for _, part := range []string{place.Table, place.Column} {
		out = binary.BigEndian.AppendUint16(out, uint16(len(part)))
		out = append(out, part...)
	}
	out = append(out, place.Row[:]...)
	out = binary.BigEndian.AppendUint64(out, uint64(place.Item))
	return binary.BigEndian.AppendUint32(out, uint32(keyID))
}
