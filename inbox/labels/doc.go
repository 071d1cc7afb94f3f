// Package labels moves the labels of events into the index by which they are found.
//
// The gate writes the labels of a group of deliveries as one row of event_label_batch, in the commit of the events. A row
// and two index entries for each label, in that commit, made up a third of what an event cost. An [Indexer] moves the batches
// into event_label a moment later, outside the gate's transactions.
//
//   - A search reads both tables in one statement. A batch is deleted in the transaction that writes its labels, so each
//     snapshot has each label exactly once: before the indexer, after it, and if there is none.
//   - Nothing remembers how far the indexer has come: what waits is what is there. A transaction that commits late is
//     therefore never passed over, and a process that dies leaves its batches to the next one.
//   - Any number of indexers may run. Each takes the batches that no other one has locked.
//
// Code that removes an event's labels must move the waiting ones into the index first. [MoveEvents] and [MoveBefore] do that;
// they wait while an indexer has the batch locked.
package labels
