package sequence

// Straight gives the effect that a plan sets going, if that is all it does but for
// moving Applied on: nothing is skipped, superseded or given up, nothing blocks, and
// no time has to come. ok is false if there is more to do, or nothing to set going.
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
