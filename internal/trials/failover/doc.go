// Package failover fails a PostgreSQL with a standby over, again and again, under load. It shows that nothing is lost if the standby is
// synchronous, and that nothing happens twice at a target that cannot deduplicate, with either sort of standby.
//
// Run it with ./scripts/failover. It builds the real binary and starts two PostgreSQL servers, one as the other's standby. Two
// processes of the binary know both of them. The primary is crashed, frozen, shut down or left alone while the standby is promoted;
// the former primary thaws or starts again and takes writes, as where nothing fences it.
//
// A ledger outside the product knows which events were acknowledged, and what the targets heard. It prints a line for each cycle and
// a summary for each sort of standby. Where the standby is asynchronous, acknowledged events may be lost: they are counted. Senders
// deliver one event in five again, 4 s after its acknowledgement, so that events that were lost come again. Before a former primary becomes a
// standby, the trial reads what it received last: every effect that happened twice is reported with the database from which it was
// sent each time.
//
// With -promotions there are three servers, whose commits wait for one of two standbys, and database.durability is one of its values
// ([RunPromotions]). The standby that has received more is promoted, as Patroni chooses it, and the other one follows it. The processes
// know all three hosts, or reach the primary through HAProxy. Nothing that was acknowledged may be lost, except under local, where it is
// counted, although the same standbys are there.
//
// With -wrong the binary has a mistake that the trial must notice: it uses any session, even on a former primary (unfenced), or
// sends before a standby has received the effect (work-unreceived).
package failover
