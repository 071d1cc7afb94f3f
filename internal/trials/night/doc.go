// Package night plays a night with an outage, after which operators use replay, and shows that a replay does what its
// plan says.
//
// Run it with ./scripts/night 20000, which is the number of deliveries. It uses TEST_DATABASE_URL, or the script starts
// a PostgreSQL.
//
// It prints how long each part of the night took and what the plans came to, then a line for each finding, such as an
// effect that happened twice. Each finding fails the test.
//
// How it works: three providers deliver while the billing target is down. It answers 503, then does not answer, then
// hangs up after it has accepted a request. A route is changed meanwhile. In the morning an operator plans a replay with
// the real commands and runs it. The process is killed in the middle, the replay is cancelled, and the rest is planned
// and run. The target keeps a ledger of every request and of what it did. [Check] compares: no effect happens twice,
// none is lost, planning changes nothing, and every item of a plan ends as the plan said, with the exact body, key and
// address. The test then damages the ledgers in every way that [Check] has to notice.
//
// It checks no invariants of internal/drill/invariant, because they do not know replays: after one, an effect may have
// another target, other bytes and another key than its event, and one without a route stays dead.
package night
