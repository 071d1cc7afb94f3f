// Package labels moves the labels of events into the index that searches use.
//
// The gate writes the labels of a group of deliveries as one row of event_label_batch, in the transaction of the events. A row
// and two index entries for each label in that transaction took a third of the cost of an event. An [Indexer] moves the batches
// into event_label a moment later, outside the gate's transactions.
//
//   - A search reads both tables in one statement. A batch is deleted in the transaction that writes its labels to the index,
//     so that each snapshot has each label exactly once, with and without an indexer.
//   - The indexer keeps no position. Every batch in the table is still to be indexed. So the indexer never misses a
//     transaction that commits late, and when a process dies, the next one moves its batches.
//   - Any number of indexers may run. Each takes the batches that no other indexer has locked.
//
// Code that removes an event's labels must first move those that are not indexed into the index. [MoveEvents] and [MoveBefore] do
// that. They wait while an indexer has the batch locked.
package labels
