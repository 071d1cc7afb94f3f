// Package calls shows that a caller may repeat a call as often as it likes: every call happens once, and every repeat gets
// the same answer.
//
// Run it with ./scripts/calls. It starts its own PostgreSQL and needs nothing else.
//
// It prints the calls and their results, then a line for each violation. Each violation fails the test.
//
// How it works: two nodes of the real binary serve one source of operations, which leads to two targets. One target
// cannot deduplicate and the other one can. Both do the work of a request and then, according to a schedule, answer,
// refuse, hang up or do not answer. In a storm a hundred callers make one call at the same instant, while another
// credential has used up its quota, and in the middle of it a node is killed and restarted with rotated secrets. In a
// walk, actors make random calls, repeat them in other words, repeat them with another payload, follow up on them, make
// them within sessions, and an operator replays the dead effects. [Check] compares the answers that the callers got
// with the work of the targets and the database.
//
// The ledgers and the invariants of internal/drill count by event. This campaign counts by intent, because several calls
// with different keys and bytes may have the same intent.
package calls
