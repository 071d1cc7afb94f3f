// Package crash kills Oncegate and PostgreSQL while deliveries are recorded, and shows that nothing acknowledged is
// lost and nothing happens twice.
//
// Run it with ./scripts/crash -cycles 200. It builds the real binary and starts its own durable PostgreSQL. -seed
// repeats a schedule, and -pooler puts a PgBouncer between the two.
//
// It prints a line for each cycle, then a summary, for example:
//
//	crash: 6 cycles (killed the binary 1 times at random and 2 times at fail points, ..), 482 events in 781 deliveries,
//	712 acknowledged, ..; violations 0; seed 16011609591634792805, 17.3 s
//
// and a line for each violation. Each violation fails the test.
//
// How it works: senders deliver signed events, some of them several times at once, and keep a ledger of every
// acknowledgement. A target that deduplicates by key keeps a ledger of every request, and a function in the database
// inserts a row for every effect into a table without a unique constraint. Meanwhile the binary is killed at random
// moments and at fail points, PostgreSQL is killed, and a proxy between them drops connections at a COMMIT: before
// PostgreSQL has it, or before its answer arrives. When all effects have come to rest, the invariants of
// internal/drill/invariant compare the ledgers with the tables: what was acknowledged is recorded with the same bytes, nothing is recorded twice or without a signature,
// and every effect has happened once. Some senders use the id of an event for another payload: each acknowledged one is
// kept, up to the newest five of an event.
//
// The test then damages the ledgers and the tables, and runs binaries with planted defects: the invariants have to notice each.
//
// A kill leaves the operating system's caches alone, so the campaign says nothing about a loss of power.
package crash
