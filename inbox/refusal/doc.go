// Package refusal keeps what was not accepted, as far as it helps a person: bounded by rate and by room, so that nobody who
// sends forgeries fills a table or hides somebody else's mistake.
//
// Call [New], then [Store.Start], and [Store.Add] for each refused request; Add never waits. [Reverify] verifies again what was
// refused, after its cause is mended, and admits what proves genuine. Package inbox lists refusals ([inbox.Lister.Refusals]).
//
// # What is kept of refusals
//
// A refusal helps a person and promises nothing, but a secret that was rotated too early
// is mended by admitting what was refused meanwhile ([Reverify]). Nobody needs a secret to
// be refused, so a source divides its room for refusals ([Store]) evenly: first by
// diagnosis, then by peer. A peer with more than an even share loses its own oldest ones.
// Most diagnoses are proved by undoing the mistake, which takes the secret, so forgers cannot
// reach the share of one. A part of each rate, and of the queue in memory, is kept
// for peers that have hardly used it. Forgers with very many addresses still share
// one diagnosis with a sender whose secret is simply another one.
package refusal
