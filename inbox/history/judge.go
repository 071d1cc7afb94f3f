package history

import (
	"time"

	"github.com/oncegate/oncegate/internal/session"
)

const (
	// MaxWitnessAge is how old the commit may be by which a process says that nothing is missing. What was committed later is not
	// known to it.
	MaxWitnessAge = 2 * time.Minute

	// WitnessPatience is how long a process that remembers nothing waits for one that does.
	WitnessPatience = 10 * time.Second
)

// Evidence is what a process knows about the beginning of a timeline.
type Evidence struct {
	// Timeline is the one that has begun, and SwitchedAt up to where the one before was replayed; 0 is not known.
	Timeline   uint32
	SwitchedAt uint64

	// Witness is the highest commit that the process remembers, from before the timeline began, and Age how long ago that was.
	Witness session.Witness
	Age     time.Duration

	// Waited is for how long the process has known of the timeline.
	Waited time.Duration
}

// Judge decides from what a process knows whether something is missing: [Whole], [Restored], or [Undecided] as long as another process
// may know more. The package comment states the rule.
func Judge(e Evidence) Verdict {
	w := e.Witness
	remembers := w.Timeline != 0 && w.Timeline < e.Timeline && e.Age <= MaxWitnessAge
	switch {
	case Misses(e):
		return Restored
	case remembers && w.Synchronous && w.Timeline+1 == e.Timeline && e.SwitchedAt > w.LSN:
		return Whole
	case !remembers && e.Waited < WitnessPatience:
		return Undecided
	}
	return Restored
}

// Misses reports whether the process remembers a commit that is missing.
func Misses(e Evidence) bool {
	w := e.Witness
	return w.Timeline != 0 && w.Timeline < e.Timeline && e.SwitchedAt != 0 && e.SwitchedAt <= w.LSN
}
