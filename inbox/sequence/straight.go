package sequence

// Straight returns the index of the effect that the plan runs, if apart from that the
// plan only advances Applied: it skips, supersedes and abandons nothing, no effect
// blocks, and no wake-up is set. ok is false if the plan does more, or runs nothing.
func (p *Plan) Straight() (run int, ok bool) {
	if !p.GapSince.IsZero() || p.Warned || p.Warn || len(p.Abandoned) > 0 || p.Blocked >= 0 || p.Wake >= 0 || !p.Below.IsZero() || p.More {
		return -1, false
	}
	run = -1
	for i, d := range p.Decisions {
		switch {
		case d.Cause != "":
			return -1, false
		case d.Action == Run && run < 0:
			run = i
		case d.Action != Keep && d.Action != Wait:
			return -1, false
		}
	}
	return run, run >= 0
}
