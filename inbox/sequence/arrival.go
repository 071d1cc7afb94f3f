package sequence

// arrival: one at a time, the first that was received.
func (d *decider) arrival() {
	for i := range d.stream.Effects {
		// Wherever it stands: what it did may still land.
		if e := &d.stream.Effects[i]; e.State == Indeterminate && !d.passable(e) {
			d.plan.Blocked = i
			return
		}
	}
	for i := range d.stream.Effects {
		if d.waits(i) {
			d.run(i, "")
			return
		}
	}
}
