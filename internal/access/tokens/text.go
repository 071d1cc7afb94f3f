package tokens

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"math/big"
	"strings"
)

// Prefix is the beginning of every token, by which people and secret scanners recognize one.
const Prefix = "og_"

const (
	secretLength   = 43 // 62^43 is more than 2^256
	checksumLength = 6  // 62^6 is more than 2^32
	shownLength    = 6  // of the secret; the other 37 characters have 220 bits
)

// newText returns a new token: the prefix, 256 random bits and a checksum, in the digits 0-9a-zA-Z.
// A token contains no character at which a double click or a line break would split it.
func newText() string {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails since Go 1.24
	body := digits(new(big.Int).SetBytes(secret[:]), secretLength)
	return Prefix + body + checksum(body)
}

// Plausible reports whether text has the form of a token and the right checksum. The caller rejects
// text that was mistyped or cut off without a lookup.
func Plausible(text string) bool {
	body, ok := strings.CutPrefix(text, Prefix)
	if !ok || len(body) != secretLength+checksumLength {
		return false
	}
	return checksum(body[:secretLength]) == body[secretLength:]
}

// Digest returns the digest that is stored for a token. A token has 256 random bits, so nobody can
// guess it from its digest, and the digest needs no salt.
func Digest(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }

// shown returns the beginning of a token, which lists show.
func shown(text string) string { return text[:len(Prefix)+shownLength] }

func checksum(body string) string {
	return digits(new(big.Int).SetUint64(uint64(crc32.ChecksumIEEE([]byte(body)))), checksumLength)
}

func digits(n *big.Int, length int) string {
	text := n.Text(62)
	return strings.Repeat("0", length-len(text)) + text
}
