// Package reconcile asks a sender which events there were and admits those that never arrived.
//
// A [Run] reads the sender's list page by page. For each page it asks the database which keys are
// recorded, and passes only the events of the others to the gate, whose constraint decides about one that
// arrives at the same time. Where the sender delivers again on request, the run makes that request instead
// and admits nothing.
//
// The table reconciliation has one row for each source: the period, the counts and the next page of its
// last run. A run that was interrupted continues there ([Run.Resume]), and a scheduled one begins where
// the last complete one ended, less an overlap.
package reconcile
