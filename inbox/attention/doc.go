// Package attention says what waits for a person: which kinds of things, how many of each, since when, and where.
//
// Call [New], then [Reader.Read]. It is one round trip. Each kind is read through the index meant for it, from the oldest on, and no
// further than [MaxCounted] rows, so that no backlog makes it slow. Nothing here is a decision: what a person does about
// a thing is a call of the package that has it.
package attention
