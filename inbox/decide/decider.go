package decide

import (
	"github.com/oncegate/oncegate/inbox"
)

// Decider carries out decisions about effects and streams of a store. Make one with [New].
type Decider struct{ store *inbox.Effects }

// New returns a [Decider] for the effects of a store.
func New(store *inbox.Effects) *Decider { return &Decider{store: store} }
