// Operators lets several operators act at the same time with the real commands, and shows that what each of them
// decided stands.
//
// Run it with ./scripts/operators -rounds 1000, which takes a quarter of an hour. It builds the real binary and starts a
// PostgreSQL of its own. -wrong changes the tables as a wrong implementation would, and expects to notice it.
//
// It prints a line now and then, the first violations, and a summary: how often each kind of act happened, was refused
// and was killed, which states the effects ended in, and what targets answered. It exits with 1 if a promise was broken,
// or, from 300 rounds on, if some kind of act never happened, since then nothing is proved about it.
//
// How it works: in each round, senders deliver, targets fail, and operators plan, run and cancel replays, discard,
// resolve, skip, unblock, erase, prune, admit conflicts, clear routes, reseal and migrate. Keys are rotated all the time.
// Processes are restarted with other configurations and killed, and so are commands. Another role of the database sends pauses and
// cancellations to River, and takes the locks of prune and of partitions: only prune may wait. After each round, ledgers outside
// the product are compared with the tables: nothing that was ended reaches a target unless somebody asked for it
// afterwards, nothing is sent twice to a target that cannot deduplicate, nothing acknowledged is lost, the order of each
// key is kept, erased content is nowhere, nothing is under an old key, and what commands report is what the tables say.
package main
