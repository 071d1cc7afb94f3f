package inbox

// Decider carries out decisions about effects and streams of a store. Make one with [NewDecider].
type Decider struct{ store *Effects }

// NewDecider returns a [Decider] for the effects of a store.
func NewDecider(store *Effects) *Decider { return &Decider{store: store} }
