// Package crash kills Oncegate and its database under load and then compares
// ledgers that were kept outside of them.
//
// A [Campaign] runs the real binary on a durable PostgreSQL of its own. Senders
// deliver signed events, again and again and at once, and write down every
// acknowledgement; a target that deduplicates by key writes down every call it
// gets, and a function in the database inserts a row for every effect into a
// table that would take a second one. Meanwhile the binary is killed at random
// moments and at fail points, PostgreSQL is killed too, and a proxy between them
// drops connections at a COMMIT, before the server has it or before its answer
// arrives. When everything has come to rest, [Check] compares: what was
// acknowledged is recorded with the same bytes, nothing is recorded twice or
// unsigned, every effect has happened once. Some senders use the id of an event for
// another payload: each of those that is acknowledged is kept, the newest five
// different ones of an event.
//
// kill -9 leaves the operating system's caches alone: this says nothing about a
// loss of power.
package crash
