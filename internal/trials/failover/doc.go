// Package failover fails a PostgreSQL with a standby over, again and again, under load. It shows that nothing is lost if the standby is
// synchronous, and that nothing happens twice at a target that cannot deduplicate, with either sort of standby.
//
// Run it with ./scripts/failover. It builds the real binary and starts two PostgreSQL servers, one as the other's standby. Two
// processes of the binary know both of them. The primary is crashed, frozen, shut down or left alone while the standby is promoted;
// the former primary thaws or starts again and takes writes, as where nothing fences it.
//
// A ledger outside the product knows which events were acknowledged, and what the targets heard. It prints a line for each cycle and
// a summary for each sort of standby. Where the standby is asynchronous, acknowledged events may be lost: they are counted. So are the events
// that came in the few seconds in which a process may still work on a former primary that takes writes, and whose effects happened twice.
//
// With -wrong the binary uses any session, even on a former primary. The trial must notice that.
package failover
