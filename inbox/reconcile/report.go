package reconcile

import (
	"cmp"
	"time"
)

// Counts say what a run found. Events are counted once for each time that the sender lists them.
type Counts struct {
	// Pages were read.
	Pages int `json:"pages"`

	// Listed counts the events of the period in the sender's list. Each is Other, Known, Missing or Unusable.
	Listed int `json:"listed"`

	// Other events are of types that the source does not ask for. A run does nothing with them.
	Other int `json:"other,omitempty"`

	// Known events had been recorded before. Late of them were recorded more than [Late] after they were
	// created.
	Known int `json:"known"`
	Late  int `json:"late"`

	// Missing events were not recorded. A run admits them, or asks for another delivery.
	Missing int `json:"missing"`

	// Admitted events were recorded by the run, and Arrived were recorded by a delivery while the run was
	// about to admit them.
	Admitted int `json:"admitted"`
	Arrived  int `json:"arrived,omitempty"`

	// Redelivered events are those whose sender accepted to deliver them again.
	Redelivered int `json:"redelivered,omitempty"`

	// Unusable elements of the list have no id that could be looked for, or their sender refuses to
	// deliver them again.
	Unusable int `json:"unusable"`

	// Why says why the first unusable element is unusable. It is empty if there is none.
	Why string `json:"why_unusable,omitempty"`
}

// unusable counts an element that is unusable because of why.
func (c *Counts) unusable(why string) {
	c.Unusable++
	c.Why = cmp.Or(c.Why, why)
}

// Late is the age from which a delivered event counts as late.
const Late = 5 * time.Minute

// Report is what a run did.
type Report struct {
	Counts

	// Since and Until are the period that the sender was asked about.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`

	// Complete is false if the run ended before the sender's last page.
	Complete bool `json:"complete"`

	// Next is the next page of an incomplete run. A dry run continues with it.
	Next string `json:"next,omitempty"`
}

// Plus returns the sum of two reports, where other is of a dry run that continued this one.
func (r Report) Plus(other Report) Report {
	c, o := r.Counts, other.Counts
	other.Counts = Counts{
		Pages: c.Pages + o.Pages, Listed: c.Listed + o.Listed, Other: c.Other + o.Other, Known: c.Known + o.Known, Late: c.Late + o.Late, Missing: c.Missing + o.Missing,
		Admitted: c.Admitted + o.Admitted, Arrived: c.Arrived + o.Arrived, Redelivered: c.Redelivered + o.Redelivered, Unusable: c.Unusable + o.Unusable,
		Why: cmp.Or(c.Why, o.Why),
	}
	return other
}
