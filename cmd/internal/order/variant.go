package main

// variant is one way to run the campaign.
type variant struct {
	name string

	// hot delivers all events under one key.
	hot bool

	// every is which numbers the route's type takes: all, or every third.
	every int

	// slow has some numbers fail for longer than the route's patience.
	slow bool

	// patience and onGap are the route's.
	patience, onGap string

	// wrong says that the promise is to be broken: nothing locks the stream.
	wrong bool
}

// A number that is recorded is not missing, so with a patience of a second and
// gaps that are given up nothing may be skipped in third and slow, as long as
// what is delivered is delivered in less.
var variants = []variant{
	{name: "plain", every: 1, patience: "1h", onGap: "hold"},
	{name: "third", every: 3, patience: "1h", onGap: "hold"},
	{name: "slow", every: 1, slow: true, patience: "5s", onGap: "skip"},
	{name: "hot", every: 1, hot: true, patience: "1h", onGap: "hold"},
}

func variantNames() []string {
	names := make([]string, len(variants))
	for i, v := range variants {
		names[i] = v.name
	}
	return names
}
