// Package effect defines what a kind of effect must implement so that package jobs can carry it
// out. A kind that leaves the database is a [Sender], one that acts inside it a [Transactional].
// Each makes one attempt at one effect and reports in its [Result] how the attempt ended. In a Go
// program a [HandlerFunc] acts in the transaction that records the outcome, and an [OutsideHandler]
// acts anywhere else.
//
// The kinds of the configuration have packages of their own: forward, mail, sql and suppress. None
// of them accesses storage: the kinds inside the database get the transaction that also records
// their outcome. Package effecttest is the suite that every kind must pass.
package effect
