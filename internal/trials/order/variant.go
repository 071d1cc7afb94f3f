package main

import (
	"fmt"
	"time"
)

// variant is one way to run the campaign.
type variant struct {
	name string

	// hot makes all events have the same key.
	hot bool

	// takesEvery says which numbers the route's type takes: every one, or every third.
	takesEvery int

	// slow makes some numbers fail for longer than the route's patience.
	slow bool

	// forward has a target outside the database, which must receive each number before the next one.
	forward bool

	// locked is how long a stream is locked. With vanish, a worker's host vanishes while it has locked streams. The other
	// streams must proceed.
	locked time.Duration
	vanish bool

	// arrival has senders that wait for each answer and deliver to two processes in turn. One of the two gets every answer
	// about the database's clock late.
	arrival bool

	// mixed adds events without order. With fair, all events are recorded before the workers
	// start, and some keys are blocked until then. With latest, one key gets versions all the time, and as much is delivered as is done.
	mixed, fair, latest bool

	// jump sets the database's clock ahead by an hour for a while.
	jump bool

	// target are statements that change the target.
	target string

	// patience and onGap are settings of the route.
	patience, onGap string

	// A planted defect, which the campaign must notice. With unlocked, workers do not lock streams; they are not killed, because
	// their metrics are read. plant are statements that make the tables behave as a wrong implementation does.
	unlocked bool
	plant    string
}

// defect reports whether the variant is wrong on purpose.
func (v *variant) defect() bool { return v.unlocked || v.plant != "" }

// variants lists the variants of the campaign. A number that is recorded is not missing. In the variant slow nothing may be skipped, although a gap is given up
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
	{name: "unlocked", takesEvery: 1, patience: "1h", onGap: "hold", unlocked: true},
	{name: "arrival", takesEvery: 1, arrival: true},
	{name: "arrival_clock", takesEvery: 1, arrival: true, plant: numberByClock},
	{name: "fair", takesEvery: 1, fair: true, mixed: true, patience: "1h", onGap: "hold"},
	{name: "fair_end", takesEvery: 1, fair: true, mixed: true, patience: "1h", onGap: "hold", plant: wakeAtTheEnd},
	{name: "latest", takesEvery: 1, latest: true, mixed: true, target: slowBeside},
	{name: "latest_end", takesEvery: 1, latest: true, mixed: true, target: slowBeside, plant: wakeNewestLast},
	{name: "jump", takesEvery: 1, mixed: true, jump: true, target: failSometimes, patience: "1h", onGap: "hold"},
	{name: "jump_kept", takesEvery: 1, mixed: true, jump: true, target: failSometimes, patience: "1h", onGap: "hold", plant: pullNothingBack},
}

func variantNames() []string {
	names := make([]string, len(variants))
	for i, v := range variants {
		names[i] = v.name
	}
	return names
}

// order is the setting of the ordered route.
func (v *variant) order() string {
	switch {
	case v.arrival:
		return `{ mode: arrival, key: body.key }`
	case v.latest:
		return `{ mode: latest, key: body.key, number: body.number }`
	}
	return fmt.Sprintf(`{ mode: contiguous, key: body.key, number: body.number, start: 1, patience: %s, on_gap: %s }`, v.patience, v.onGap)
}

// givesUp reports whether the ordered route gives up numbers that come late.
func (v *variant) givesUp() bool { return v.onGap == "skip" }

// failpoint is the fail point that the workers are started with.
func (v *variant) failpoint() string {
	if v.unlocked {
		return "work-unlocked"
	}
	return ""
}
