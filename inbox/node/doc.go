// Package node lets the processes of one database know of each other: which live, what they work, which keys they hold.
//
// Call [New], then [Node.Work] with the routes, [Node.Beat] every [Heartbeat] and [Node.Leave] at the end. [List] reads all
// rows.
//
// # How processes know of each other
//
// Every process has a row in the table node ([Node]) with its version, its roles, a fingerprint of its configuration
// and its sealing keys, and renews it every few seconds. An operation that is only safe if all processes know of it
// checks these rows first: every process knows a sealing key before one seals with it ([Lacking]), and the key is
// removed only when no process seals with it any more ([Sealing]). An effect whose key its process lacks waits, without
// an attempt: another process may have the key.
//
// The row also names the routes that a process works. An effect whose route the fetching process does not know is
// handed over to the live processes that work it, as the last heartbeat saw them ([Peers]): its wake-up gets a kind
// that only they fetch. If they vanish, the sweeper takes such wake-ups back. If no process knows the route, the effect
// is postponed, for longer and longer, until a process that knows it starts and recalls the effect
// ([inbox.Effects.RecallStrays]).
package node
