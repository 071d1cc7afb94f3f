package fetch

import (
	"hash/maphash"
	"time"
)

const (
	// sketchBuckets times bucketSlots entries of 8 bytes are 512 KiB. Entries of a
	// hundred new documents a second stay for some ten minutes.
	sketchBuckets = 1 << 14
	bucketSlots   = 4

	// remember is how long a document that was put off is known to have been: long
	// enough for the repetition of a sender that waits some minutes.
	remember = 15 * time.Minute
)

// sketch remembers which documents were put off, in a fixed amount of memory. It may
// forget one, and hardly ever takes one for another. Where an entry goes depends on a
// seed that nobody else knows, so nobody can push out a certain one.
type sketch struct {
	seed  maphash.Seed
	slots []slot // made when first needed
}

// slot is a part of a document's hash, and the second in which it was put off, counted
// from 1.
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

// has reports whether a document was put off lately. age counts from the same moment
// in each call.
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

// add remembers a document, in the place of the oldest of its bucket.
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
