// Package inbox is the domain of Oncegate and its SQL: the words, and the life of effects from the commit that records
// them to the state in which they stay. It knows PostgreSQL; it knows no web framework, no provider and no queue.
//
// # Where to begin
//
// A program that takes and carries out webhooks calls package oncegate, at the module's root, and nothing here. To work
// on Oncegate itself, begin with [Effects]: [NewEffects], [Effects.Claim], [Effects.Settle]. [Clock] compares clocks. These
// packages are built on this one, one noun each:
//
//   - read answers what people ask ([read.Lister]), and decide carries out what they decide ([decide.Decider]);
//   - operation answers the callers of operations ([operation.Store]);
//   - gate records deliveries, relay admits what SQL callers emit, consume takes messages of brokers, refusal keeps what was not accepted;
//   - suppression keeps the addresses to which nothing is sent;
//   - labels moves the labels of events, which the gate writes as one row a commit, into the index by which they are found;
//   - rollup counts by minute and by hour what sources and routes do, and attention lists what waits for a person;
//   - replay carries effects out again, prune removes and erases;
//   - registry writes the configuration's names, node lets processes know of each other, history records failovers, restores and copies;
//   - receiver and admin are the HTTP sides.
//
// This package uses sequence, which decides about order without a database, seal, which encrypts, and internal, which
// contains what all stores share.
//
// The reasons of failures are in reasons. An effect, its order and its effect key are changed under the same locks, by the
// same statement ([Effects.SettleLocked]), also when a person decides, and must read as one: therefore they stay in this
// package.
//
// # The promise
//
//  1. A delivery is acknowledged (2xx) only after its event, its body, its
//     effects and the jobs that will carry them out are committed together. A
//     fault of ours is a 5xx, never a 2xx and never a 4xx.
//  2. An event is recorded at most once for (source, event id), however often
//     and however concurrently it is delivered, for as long as its row lives:
//     its tombstone horizon. After that, an event whose own signed time is older
//     than the horizon is held for a person. Where none is signed, that is all
//     that can be said. Only a verified delivery can take a key.
//  3. An effect inside our database happens exactly once. An effect on an
//     idempotent target is sent with one stable key and an identical body until
//     it is known to have happened. An effect on a target that cannot
//     deduplicate is sent again only if it certainly did not happen: nothing
//     was sent, or the answer precedes the work by its definition (HTTP 429, a
//     negative SMTP reply) or by the target's own word (retry_on). If its
//     outcome is unknown it is indeterminate and waits for a person, never
//     retried by itself.
//  4. An effect begins only when its predecessor in the same sequence key is
//     settled, or passed over by the route's policy; in our database an older
//     version never overwrites a newer one; one stuck key never delays
//     another. An attempt whose end was not seen may still land late at an
//     outside target. It carries the sequence number, so that the target can refuse it.
//  5. Nothing is dropped silently: refused, duplicate, conflicting, held,
//     superseded, skipped, dead and indeterminate are counted, and what a person
//     must see is a row.
//
// Our tables are the truth; river_job is only a wake-up. Truncating it loses and
// doubles nothing.
//
// # How an effect gets done
//
// An effect is a row with a state ([EffectState]). A River job wakes a worker, which claims the effect under a lease
// token ([Effects.Claim]), makes one attempt and settles it ([Effects.Settle]), fenced by the token: a worker that lost
// its lease can finish nothing. Attempts are counted in the row. The sweeper of package jobs makes a new job for each
// overdue effect that has none.
//
// A retry policy's deadline is checked in the claim and again before the first byte, so that nothing is sent after it,
// however long the effect was delayed.
//
// An effect on an idempotent target whose attempts are used up is dead, even if one of them may have reached the
// target: as long as the target knows the key, sending it again does no harm, and a redelivery or a replay may do so.
// The result for a caller says indeterminate and not failed, because a caller that reads "failed" would call under a
// new key.
//
// Of all effects of a route with one key by recipe, one happens: it owns the key, and the others are its duplicates
// with its outcome. An owner that is dead and certainly never happened, in none of its attempts, loses the key to the
// next effect that asks. The results of its existing duplicates already say that it failed, so they stay its
// duplicates. If it is replayed, it becomes the duplicate of its successor, and so do they. An owner that may have
// happened keeps its key, even if a person resolves or discards it.
//
// An effect may become a list: one effect, its item, for each recipient. The recipe's key and the meaning of the item
// make the item's key, and the transaction that writes some items ([Effects.WriteItems]) asks for their keys. The
// positions of a list never change once it was begun, so that a worker that continues the list begins after its last
// position.
//
// # How order is kept
//
// Package sequence decides about a stream in the claim and in the settlement, under the lock of the stream's row, in
// two round trips: the first locks and reads, the second writes the decisions and commits. The lock is never held
// during an attempt. Whichever of two transactions comes second sees what the first has done, so that no wake-up is
// lost: an effect is held only under the lock, and the caller that ends its predecessor looks for it under the lock.
// The gate takes no such lock: an effect that it admits is pending and has a job, whose worker decides. A worker claims
// the next effect of a key in the transaction that settles the one before, if that effect's own wake-up has come
// already, and then carries it out; any other caller inserts a job for it. The claim also reads the following effects
// ahead, so that the settlement of each of them is one statement, which checks under the lock whether everything is as
// it was foreseen and does nothing if it is not. A process that does not know a route's policy wakes the first held
// effect, and the worker that claims it decides. Held effects have no job and no time, except the first one after a
// gap; the sweeper looks through them and must find none that is free.
//
// Ordered and unordered effects of the same age wait equally long. Workers take the
// oldest wake-up first, and a wake-up that is made later has the time at which the
// effect's own event was received: what was held comes back to its place in the queue
// and not to its end. In mode latest the newest version runs on the first wake-up of any
// version of its key, because its own is the last in the queue, and the next version
// would supersede it before that came.
//
// Streams belong to the definition by which a route's order was defined when they began ([RegisterOrders]): the hash of
// a key includes the definition, except for a route's first definition. A stream is decided by the order under which it
// began, even if the route's order has changed since, so that two definitions may be live at once.
//
// A sequence key is often a person's, and a plain hash of an email address is as good as the address. With a keyring
// the hash of a new definition's keys is an HMAC under a secret of the installation. The secret is sealed with the
// keyring. It is never rotated, only sealed again under another key, because the hash is the stream's identity: hashed
// under another secret, a key would have a second stream, and the two would not wait for each other. For the same
// reason a definition keeps its kind of hash: older streams have plain hashes until their route's order is defined
// another way, and a trigger refuses a program that does not know secrets, when it registers the definition and when it
// makes a stream of it. The key itself is stored next to the hash for people, sealed like a body.
//
// One locked stream never delays another: a transaction that takes several streams skips those that other transactions
// have locked, and never waits for an effect that another transaction has locked. No wake-up is lost by that either. A
// skipped claim keeps its job, which asks again. A skipped settlement has not happened: its worker tries it alone,
// without a connection in between, until its lease ends. Sweeps, checks and replays come back to the rows that they
// skipped. A skipped caller changes nothing that another decision could have looked for in vain. The server ends the
// transaction of a vanished process after about a lease, and a stream that stays locked is reported with the backend
// that has it.
//
// The items of a list share the place of the effect that became the list: it is not settled before all its items are.
// In mode latest a list is refused, because a newer version supersedes an effect but not the items that it became.
//
// # The result of an operation
//
// The key of an operation begins with the name of the credential that calls, and never contains anything of a secret: a
// credential has several secrets, and one is replaced while calls run. The caller is known before the key is taken.
// Therefore an operation that the credential may not call, or a new key beyond a quota of the source, the credential or
// the tenant, records nothing. Quotas are counted in each process, because one row that all calls of a tenant write
// would cost more than it guards.
//
// A caller that is not a provider gets a result: [operation.Store] renders it once all effects of the event are at rest, and
// stores it. Every later answer is those bytes. The first caller that asks renders it, under the event's lock; the
// worker reports the end of each attempt so that this happens soon. A decision that moves an effect out of rest deletes
// a result that is no longer true, in the same transaction: resolving ([decide.Decider.Resolve]) deletes an indeterminate
// result, and a replay deletes any result that says less than done. Until the effects are at rest again the answer says
// that the operation is still running. A caller that saw a failure that is being repaired would call again under a new
// key, and the effect would happen twice.
//
// A caller whose operation did not end well calls again under a new key and says how the new call follows the old one
// ([FollowKind]): it resumes it, or comes instead of it. The gate inserts the row that says so in the transaction that
// records the new call, under the lock of the old call's event, and constraints decide between calls that come at
// once. From then on the old effects are repeated neither by a redelivery nor by a batch replay, nor by a probe: one wish,
// one effect. A person may still send one of them, by its id, who says that they know of the later call. A
// resumed call carries out an effect only if a stored effect of the old call says that it did not happen. A row that is
// missing never says that.
//
// # How clocks and connections fail
//
// [Clock] compares this machine's clock with the database's. Neither is known to be right: while they differ, or could
// not be compared in the last seconds, a delivery whose only fault is its time is a fault of ours ([Clock.Doubted]).
// The receiver asks that only for a delivery that verifies otherwise, so that a sender of stale signatures delays no
// deliveries but its own.
//
// A connection may fall silent, without a reset and without an answer. Each statement
// of claims, settlements, sweeps and checks has a deadline by the lease, those that
// River makes without one have it from the connection ([session.OpenPoolWithin]), and a pool
// one of whose connections owed an answer in vain is renewed, since the others most
// likely went the same way. The gate sets no deadline of the server's, for a statement
// timeout would also hit a COMMIT that waits for a standby; nor does the work pool.
//
// # Where this differs from the design it was built on
//
// The gate inserts River's jobs with its own SQL, each with an id from River's sequence that is in
// the effect's row, so that one round trip writes both; a test compares the rows with those that River makes. Connections of the
// gate plan without sequential scans and with generic plans: every statement has its index, and the tables start empty
// and never analysed. Every pool sets synchronous_commit itself, so that the database's setting does not matter: to on, except that the gate's
// commits wait for what the source's [Durability] says. The
// second flusher begins only when the first stalls: two groups at once are half as large and cost more each. Two small
// packages are not in the design, because more than one package needs each of them: egress, the one guard of everything
// that leaves, and expression, which evaluates the configuration's expressions about an event. In mode latest an
// unknown outcome counts as applied: an older version must not follow what may have happened. In mode arrival an
// effect's sequence number is the database's count of receipts, so that a target can refuse there too.
package inbox
