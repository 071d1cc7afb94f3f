package fetch

import (
	"hash/maphash"
	"time"
)

const (
	// sketchBuckets times bucketSlots entries of 8 bytes are 512 KiB. At a hundred new documents a
	// second, an entry stays for about ten minutes.
	sketchBuckets = 1 << 14
	bucketSlots   = 4

	// remember is how long the sketch remembers a deferral. It covers a sender that waits some
	// minutes before it retries.
	remember = 15 * time.Minute
)

// sketch remembers which documents were deferred, in a fixed amount of memory. It may forget a
// document, and very rarely confuses two. The place of an entry depends on a secret seed, so an
// attacker cannot evict a chosen entry.
type sketch struct {
	seed  maphash.Seed
	slots []slot // allocated on first use
}

// slot is a part of a document's hash, and the second in which it was deferred, counted from 1.
type slot struct{ mark, at uint32 }

func newSketch() sketch { return sketch{seed: maphash.MakeSeed()} }

func (s *sketch) bucket(key digest) (bucket []slot, mark uint32) {
	if s.slots == nil {
		s.slots = make([]slot, sketchBuckets*bucketSlots)
	}
	hash := maphash.Bytes(s.seed, key[:])
	at := int(hash%sketchBuckets) * bucketSlots
	return s.slots[at : at+bucketSlots], uint32(hash >> 32)
}

// has reports whether a document was deferred within the last 15 minutes. age is the time since a
// fixed start.
func (s *sketch) has(key digest, age time.Duration) bool {
	if s.slots == nil {
		return false
	}
	bucket, mark := s.bucket(key)
	now := uint32(age/time.Second) + 1
	for i := range bucket {
		if bucket[i].at != 0 && bucket[i].mark == mark && now-bucket[i].at < uint32(remember/time.Second) {
			return true
		}
	}
	return false
}

// add records a document. It replaces the oldest entry of the bucket.
func (s *sketch) add(key digest, age time.Duration) {
	bucket, mark := s.bucket(key)
	oldest := 0
	for i := range bucket {
		if bucket[i].mark == mark {
			oldest = i
			break
		}
		if bucket[i].at < bucket[oldest].at {
			oldest = i
		}
	}
	bucket[oldest] = slot{mark, uint32(age/time.Second) + 1}
}
