package main

import "time"

// variant is one way to run the campaign.
type variant struct {
	name string

	// hot delivers all events under one key.
	hot bool

	// takesEvery is which numbers the route's type takes: all, or every third.
	takesEvery int

	// slow has some numbers fail for longer than the route's patience.
	slow bool

	// forward sends to a target outside the database, which has to see each number
	// before the next.
	forward bool

	// locked has somebody lock the rows of a stream for so long, and vanish has a
	// worker's host vanish while it holds some: the other streams have to go on.
	locked time.Duration
	vanish bool

	// patience and onGap are the route's.
	patience, onGap string

	// defect says that the promise is to be broken: the workers do not lock streams,
	// and are not killed, since what they find is asked of those that live.
	defect bool
}

// A number that is recorded is not missing: in slow nothing may be skipped, though
// gaps are given up after less than numbers fail for.
var variants = []variant{
	{name: "plain", takesEvery: 1, patience: "1h", onGap: "hold"},
	{name: "third", takesEvery: 3, patience: "1h", onGap: "hold"},
	{name: "slow", takesEvery: 1, slow: true, patience: "5s", onGap: "skip"},
	{name: "hot", takesEvery: 1, hot: true, patience: "1h", onGap: "hold"},
	{name: "forward", takesEvery: 1, forward: true, patience: "1h", onGap: "hold"},
	{name: "forward_hot", takesEvery: 1, forward: true, hot: true, patience: "1h", onGap: "hold"},
	{name: "locked", takesEvery: 1, patience: "1h", onGap: "hold", locked: 40 * time.Second},
	{name: "vanished", takesEvery: 1, patience: "1h", onGap: "hold", vanish: true},
	{name: "unlocked", takesEvery: 1, patience: "1h", onGap: "hold", defect: true},
}

func variantNames() []string {
	names := make([]string, len(variants))
	for i, v := range variants {
		names[i] = v.name
	}
	return names
}

// failpoint is what the workers are started with.
func (v *variant) failpoint() string {
	if v.defect {
		return "work-unlocked"
	}
	return ""
}
