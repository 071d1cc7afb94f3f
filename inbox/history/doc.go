// Package history records on which cluster and timeline the database was written, whether data is missing since
// then, and what an operator has declared about a copy.
//
// Call [Begin] on the first session of each timeline, [Read] to learn whether effects may be carried out, [Judge] and [Decide] after a
// failover, [Declare] for an operator, and [Finish] when the effects that may already have happened are marked
// ([inbox.Effects.MarkRestored]).
//
// # The rule
//
// The last row of the table database_history names the cluster (its system identifier), the tables (the table's own oid, which a
// restored dump does not keep) and the timeline on which the installation was written. A server that differs from it has another history:
//
//   - Another cluster, or tables that were created again, is a copy. Nothing is carried out until an operator declares it: moved
//     (everything is there), restored (what happened since the backup is missing) or copy (it is not the installation, and carries nothing
//     out). It receives and records meanwhile, because a production database that was restored must lose nothing.
//   - A later timeline of the same cluster is a failover or a recovery to a point in time. It is whole only if a process that lived
//     through it can say so: the process remembers a commit, not older than [MaxWitnessAge], that waited for a synchronous standby, on the
//     timeline directly before, and the new primary has replayed the log beyond it. In every other case something may be missing, and
//     the database counts as restored. Where no process remembers anything, others are waited for, for [WitnessPatience].
//   - A process that remembers a commit which the new primary has not replayed turns a decision for whole into restored.
//
// In a restored database, effects that may already have happened outside become indeterminate with the reason restored, before anything is
// carried out: those on targets that cannot deduplicate that are not settled, and were there when the row was written. What the gate
// records afterwards has jobs with higher numbers. Targets that deduplicate get the same keys again.
//
// What cannot be noticed: a copy of a server's disks that begins again on the same timeline has the same names.
// It is declared before a process starts on it.
package history
