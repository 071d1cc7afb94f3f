package draft

import (
	"crypto/md5"  //nolint:gosec // tried to be told apart, never written
	"crypto/sha1" //nolint:gosec // some senders sign with HMAC-SHA1
	"crypto/sha256"
	"crypto/sha512"
	"hash"
)

// algorithm is a method to compute a digest from a key and a message.
type algorithm struct {
	name  string
	size  int
	new   func() hash.Hash
	plain bool
}

func algorithms() []algorithm {
	return []algorithm{
		{"sha256", sha256.Size, sha256.New, false}, {"sha1", sha1.Size, sha1.New, false}, {"sha512", sha512.Size, sha512.New, false},
		{"sha384", sha512.Size384, sha512.New384, false}, {"md5", md5.Size, md5.New, false},
	}
}
