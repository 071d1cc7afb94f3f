package attention

import (
	"fmt"
	"strings"
	"time"
)

// words are the names of one and of several things of a kind, and what an operator does about them.
type words struct{ one, several, action string }

var kindWords = map[Kind]words{
	Undeclared:    {"undeclared database", "undeclared databases", "It was copied or restored, and nothing is carried out: run oncegate history declare."},
	Indeterminate: {"unknown outcome", "unknown outcomes", "Ask the target, then resolve."},
	Failing:       {"failing target", "failing targets", "Mend the target: its effects are tried again by themselves. Or pause it."},
	Dead:          {"dead letter", "dead letters", "Mend the cause, then replay or discard."},
	Unusable:      {"unusable event", "unusable events", "Replay or discard."},
	Blocked:       {"blocked stream", "blocked streams", "Replay or skip what blocks."},
	Gaps:          {"stream with a gap", "streams with a gap", "Wait for the missing number, or give it up."},
	Undecided:     {"effect held for you", "effects held for you", "Let it run, or skip it."},
	Conflicts:     {"conflict", "conflicts", "Look at what differs, and admit what is right or dismiss it."},
	RefusedOutbox: {"emitted event that cannot be admitted", "emitted events that cannot be admitted", "Open the source to emit, or correct the caller."},
	Stranded:      {"stranded effect", "stranded effects", "Bring the route back, or clear it."},
	NotReloaded:   {"process that keeps its configuration before a failed reload", "processes that keep their configuration before a failed reload", "Read why in `oncegate nodes list`, correct the configuration, and reload."},
	Silent:        {"silent source", "silent sources", "Ask its provider."},
	Refusals:      {"refusal in 24 hours", "refusals in 24 hours", "Read the diagnosis, or acknowledge what needs nothing."},
	Suspected:     {"suspected replay in 24 hours", "suspected replays in 24 hours", "Somebody may send recorded deliveries again."},
	Plans:         {"planned replay", "planned replays", "Run it, or cancel it."},
	Paused:        {"pause", "pauses", "Resume it when its reason is gone."},
	Standstills:   {"replay that does not move", "replays that do not move", "Look at the nodes and their logs."},
}

// Noun returns the name of n things of the kind, without the number. A kind that a newer version of Oncegate knows is named by its code.
func (k Kind) Noun(n int64) string {
	w, known := kindWords[k]
	switch {
	case !known:
		return strings.ReplaceAll(string(k), "_", " ")
	case n == 1:
		return w.one
	}
	return w.several
}

// Action returns in one sentence what an operator does about things of the kind. It is empty for a kind that is not known.
func (k Kind) Action() string { return kindWords[k].action }

// Words says what waits for the target: "50 effects wait since 2026-11-27 16:54 UTC, last answer 500".
func (f *Failure) Words() string {
	wait := "effects wait"
	switch {
	case f.More:
		wait = "or more effects wait"
	case f.Effects == 1:
		wait = "effect waits"
	}
	return fmt.Sprintf("%d %s since %s, %s", f.Effects, wait, Clock(f.Oldest), f.Answer())
}

// Sentence names the target and says what waits for it.
func (f *Failure) Sentence() string { return "target " + f.Target + " fails: " + f.Words() }

// Clock writes a time to the minute, in UTC.
func Clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
