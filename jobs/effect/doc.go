// Package effect is what a kind of effect has to be, so that package jobs can carry it out. A
// kind that leaves the database is a [Sender], one that acts inside it a [Transactional]; each
// makes one attempt at one effect and says in its [Result] what came of it. In a Go program a
// [HandlerFunc] acts in the transaction that records the outcome, and an [OutsideHandler]
// anywhere else.
//
// The kinds of the configuration are in packages of their own: forward, mail and sql. None of
// them knows storage: those inside the database are handed the transaction that will also
// record their outcome. Package effecttest is the suite that every kind has to pass.
package effect
