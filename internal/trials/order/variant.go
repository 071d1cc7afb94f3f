package main

import "time"

// variant is one way to run the campaign.
type variant struct {
	name string

	// hot gives all events one key.
	hot bool

	// takesEvery says which numbers the route's type takes: every one, or every third.
	takesEvery int

	// slow makes some numbers fail for longer than the route's patience.
	slow bool

	// forward has a target outside the database, which must receive each number before the next one.
	forward bool

	// locked locks a stream for that time. vanish has a worker's host vanish while it holds streams. The other streams
	// have to proceed.
	locked time.Duration
	vanish bool

	// patience and onGap are settings of the route.
	patience, onGap string

	// defect is a planted defect: the workers do not lock streams. They are not killed, because they are asked what
	// they have found.
	defect bool
}

// A number that is recorded is not missing. In the variant slow nothing may be skipped, although a gap is given up
// after less time than numbers fail for.
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

// failpoint is the fail point that the workers are started with.
func (v *variant) failpoint() string {
	if v.defect {
		return "work-unlocked"
	}
	return ""
}
