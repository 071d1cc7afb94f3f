// Package control holds everything that a person or a program can ask of Oncegate, and have it do, beside delivering: the
// operations of the API, of the command line and of the console, which are the same.
//
// An [Operation] is declared once, in the file of its noun: events.go has [ListEvents] and [ShowEvent]. [Operations] are
// all of them. [Call] carries one out, in this process by a [Local], or at a server by another [Caller] such as the client of
// package api, which makes its requests from the same declaration. What an operation may show and do is decided by the
// [Access] of whoever asks, and nowhere else.
package control
