package sequence

// arrival runs one effect at a time, in the order of receipt.
func (d *decider) arrival() {
	for i := range d.stream.Effects {
		// Its position does not matter: the attempt may still take effect at the target.
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
