// Package calls shows that a caller may repeat a call as often as it likes: every call happens once, and every repeat gets
// the same answer.
//
// Run it with ./scripts/calls. It makes a PostgreSQL of its own and needs nothing else.
//
// It prints what was called and what came of it, then a line for each violation. Each violation fails the test.
//
// How it works: two nodes of the real binary serve one source of operations, which leads to two targets. One target cannot
// deduplicate and the other one can. Both do the work of a request and then, as a schedule says, answer, refuse, hang up
// or say nothing. In a storm a hundred callers make one call at the same instant, while another credential has used up its
// quota, and in the middle of it a node is killed and comes back with rotated secrets. In a walk, actors make random calls, repeat them
// in other words, repeat them with another payload, follow up on them, make them within sessions, and an operator replays
// what is dead. [Check] compares what the callers were told with what the targets did and what the database says.
package calls
