// Package control defines everything that an operator or a program can ask Oncegate, or make it do, except for
// delivering events. The API, the command line and the console have the same operations.
//
// An [Operation] is declared once, in the file of its noun: events.go has [ListEvents] and [ShowEvent]. [Operations]
// returns all of them. [Call] carries one out, in this process by a [Local], or at a server by another [Caller] such as
// the client of package api, which makes its requests from the same declaration. Only the caller's [Access] decides
// what an operation may show and do.
package control
