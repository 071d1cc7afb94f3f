package rig

import (
	"math/rand/v2"
	"strconv"
)

// Random is a source of random numbers for a schedule. The same seed and stream give the same numbers.
func Random(seed, stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, stream)) //nolint:gosec // a schedule is no secret
}

// Rounds returns a function that draws from a list. Each round has every entry once, in another order.
func Rounds[T any](random *rand.Rand, all []T) (draw func() T) {
	var left []T
	return func() T {
		if len(left) == 0 {
			left = append(left, all...)
			random.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		}
		next := left[0]
		left = left[1:]
		return next
	}
}

// DrawSeed returns the seed that was asked for, or draws one if that is 0.
func DrawSeed(seed uint64) uint64 {
	for seed == 0 {
		seed = rand.Uint64() //nolint:gosec // a schedule is no secret
	}
	return seed
}

// RunID names a run. Each run has another one, also when the seed is the same.
func RunID() string {
	id := strconv.FormatUint(rand.Uint64()|1<<63, 16) //nolint:gosec // a name is no secret
	return id[:8]
}
