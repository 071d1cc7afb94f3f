// Package refusal keeps requests that were not accepted, as far as they help a person. It bounds them by rate and by
// room, so that a sender of forgeries can neither fill a table nor hide another sender's mistake.
//
// Call [New], then [Store.Start], and [Store.Add] for each refused request; Add never waits. [Reverify] verifies
// refusals again after their cause was repaired, and admits those that prove genuine. Package inbox lists refusals
// ([read.Lister.Refusals]).
//
// # Which refusals are kept
//
// A refusal helps a person and promises nothing, but after a secret was rotated too early you repair the damage by
// admitting the requests that were refused meanwhile ([Reverify]). A request can be refused without any secret, so a
// source divides its room for refusals ([Store]) evenly: first by diagnosis, then by peer. A peer with more than an
// even share loses its own oldest ones. Most diagnoses are proved by undoing the mistake, which takes the secret, so
// forgers cannot use up their shares. A part of each rate, and of the queue in memory, is reserved for peers that have
// hardly used it. Forgers with very many addresses still share one diagnosis with a sender whose secret is simply a
// different one.
package refusal
