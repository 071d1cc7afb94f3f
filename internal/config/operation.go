package config

import (
	"fmt"
	"time"

	"github.com/oncegate/oncegate/internal/yamltree"
)

// Operation contains the settings that only sources of operations have.
type Operation struct {
	// Key is the recipe of a call's key: fields such as header.Run-Id or body.step. If it is empty,
	// the caller must send an Idempotency-Key.
	Key []string
	// MinKey is the minimum length, in characters, of a key that the caller chooses. Zero means no
	// limit.
	MinKey int
	// NewKeys limits the new keys per minute in this process. Zero means no limit.
	NewKeys int
	// Wait is the longest wait that `Prefer: wait` can request. Zero means 30 s, and -1 disables
	// waiting.
	Wait time.Duration
	// Repeats configures the detection of calls that are repeated under another key.
	Repeats Repeats
}

// longestWait is what remains of the server's WriteTimeout after the gate's deadline.
const longestWait = 45 * time.Second

// operation reads the section operation and configures the source's provider to use the recipe.
// Call it after the source's provider is known.
func (r *reader) operation(s *Source, n *yamltree.Node) {
	if s.Shadow && s.Provider != nil && s.Provider.IsOperation() {
		s.node.Member("shadow").Fail("a caller of operations waits for what its call did, and shadow mode does nothing; remove shadow, and compare recorded runs by replay plan --compare")
	}
	if n == nil {
		return
	}
	if s.Provider != nil && !s.Provider.IsOperation() {
		n.Fail("is valid only with a provider of operations, which %s is not", s.Provider.Name())
		return
	}
	r.fields(n, s.Operation.keys())
	key := n.Member("key")
	if key == nil || s.Provider == nil || !n.Sound() {
		return
	}
	p, err := s.Provider.WithRecipe(s.Operation.Key)
	if err != nil {
		failLines(key, err)
		return
	}
	s.Provider = p
}

func (o *Operation) keys() []Key {
	wait := orOff(form[time.Duration]{shortWait, durationText, durationSchema}, nil)
	return []Key{
		recipe(&o.Key, "the header `Idempotency-Key`", "A list of `header.X`, `body.x.y`, `form.x` and `query.x` that the key is made of. `body.currency=EUR`, or `{ field: body.currency, default: EUR }`, has a default; a field called `version` has the default 1. Numbers count by their value."),
		value("min_key", &o.MinKey, minKey, "no limit", "How many characters a key of the caller's own must have. A shorter key that is recorded already is answered. Declared operations have their own."),
		value("new_keys", &o.NewKeys, integer(1), "no limit", "How many new keys each process takes in a minute, of all callers together."),
		value("wait", &o.Wait, wait, "`30s`", "How long a call may wait for its result (`Prefer: wait=N`); at most `45s`, or `off`."),
		inside("repeats", "repeats", o.Repeats.keys, "none", "The treatment of calls that are repeated under another key: see [Suspected repeats](#suspected-repeats).").by(func(r *reader, n *yamltree.Node) { o.Repeats.read(r, n) }),
	}
}

func shortWait(s string) (time.Duration, error) {
	d, err := yamltree.PositiveDuration(s)
	if err == nil && d > longestWait {
		err = fmt.Errorf("longer than %s", yamltree.FormatDuration(longestWait))
	}
	return d, err
}
