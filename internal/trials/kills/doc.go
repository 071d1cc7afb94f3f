// Package kills kills, stops and cuts off workers at chosen points of an attempt, and shows that no effect is lost or
// carried out twice.
//
// Run it with ./scripts/kills -cycles 1000. It builds the real binary and starts its own PostgreSQL. -seed repeats the
// order of the faults.
//
// It prints a line for each cycle, then a summary, for example:
//
//	kills: 8 cycles (5 kills, 0 pauses, 1 resets, 1 cuts from PostgreSQL, 1 answers of 503), 33 events; where the target
//	deduplicates: 12 requests, 3 effects were sent more than once; where it cannot: 16 effects, 3 indeterminate ..,
//	of which 1 never arrived; 10 duplicates of a key; 0 violations; seed 14136623462583937761, 13.7 s
//
// and a line for each violation. Each violation fails the test.
//
// How it works: two workers share the effects, and the targets decide at which point a fault strikes. A target can hold
// a request before it is read, after it was read, or in the middle of its answer; an SMTP server can hold a message
// after the final dot; a function in the database waits before it returns. The [Campaign] then kills the worker whose
// request is held, or pauses it for longer than its lease. Other targets reset connections, or answer 503 after the
// work, and a proxy cuts the worker off from PostgreSQL at a COMMIT or while the start of a send is recorded. Nothing
// depends on being quick enough.
//
// [Check] then says for each effect whether its target saw what is guaranteed. A target that deduplicates sees one key
// and the same bytes. A target that cannot deduplicate sees the effect at most once, and the effect is indeterminate if
// its outcome is unknown. A function in the database runs exactly once. On the routes with an effect key, one of two
// events about the same order happens, and the other one is its duplicate. The test also runs binaries with planted
// defects, and must notice each of them.
package kills
