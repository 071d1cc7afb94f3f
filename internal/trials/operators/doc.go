// Operators runs several operators at the same time with the real commands, and shows that none of their decisions
// is overridden.
//
// Run it with ./scripts/operators -rounds 1000, which takes a quarter of an hour. It builds the real binary and starts
// PostgreSQL. -wrong changes the tables as a wrong implementation would, and expects to notice it.
//
// It prints a line now and then, the first violations, and a summary: how often each kind of act happened, was refused
// and was killed, which states the effects ended in, and what targets answered. It exits with 1 if a promise was broken,
// or, from 300 rounds on, if some kind of act never happened, since then nothing is proved about it.
//
// How it works: in each round, senders deliver, targets fail, and operators plan, run and cancel replays, discard,
// resolve, skip, unblock, erase, prune, admit conflicts, clear routes, reseal and migrate. Keys are rotated all the time.
// Processes are restarted with other configurations and killed, and so are commands. Another role of the database sends pauses and
// cancellations to River, and takes the locks of prune and of partitions: only prune may wait. After each round, ledgers outside
// the product are compared with the tables: no ended effect reaches a target unless an operator asked for it
// afterwards, nothing is sent twice to a target that cannot deduplicate, nothing acknowledged is lost, the order of each
// key is kept, erased content is nowhere, nothing is under an old key, and the commands' reports agree with the tables.
//
// It does not use the invariants of internal/drill/invariant. What must hold for an effect depends here on what operators
// decided about it, and when.
package main
