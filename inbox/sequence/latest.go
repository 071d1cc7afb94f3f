package sequence

// latest runs the newest waiting effect if it is newer than Applied, and supersedes the
// older ones.
func (d *decider) latest() {
	newest := Number{}
	for i := range d.stream.Effects {
		e := &d.stream.Effects[i]
		// One whose outcome is unknown may have been applied.
		if (e.State.Settled() || e.State == Indeterminate) && e.Number.Compare(d.plan.Applied) > 0 {
			d.plan.Applied = e.Number
		}
	}
	for i := range d.stream.Effects {
		if e := &d.stream.Effects[i]; d.waits(i) && e.Number.Compare(d.plan.Applied) >= 0 && e.Number.Compare(newest) > 0 {
			newest = e.Number
		}
	}
	floor := d.plan.Applied
	if !newest.IsZero() {
		floor = newest
	}
	d.plan.Below = floor
	first := true // no effect with the newest number has been chosen yet
	for i := range d.stream.Effects {
		if e := &d.stream.Effects[i]; e.State == Claimed && e.Number.Compare(floor) == 0 {
			first = false
		}
	}
	for i := range d.stream.Effects {
		e := &d.stream.Effects[i]
		switch {
		case !d.waits(i):
		case e.Number.Compare(floor) < 0:
			d.set(i, Pass, "")
		case (!first || e.Twin && e.Number.Compare(d.plan.Applied) == 0) && d.tie(i):
		default:
			d.run(i, "")
			first = false
		}
	}
}
