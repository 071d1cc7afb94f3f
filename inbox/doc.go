// Package inbox is the domain of Oncegate and its SQL: the gate that records a
// delivery once, and the life of the effects that follow. It knows PostgreSQL;
// it knows no web framework, no provider and no queue.
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
//     settled, or passed over by the route's policy; in our database a newer
//     version is never overwritten by an older one; one stuck key never holds up
//     another. An attempt whose end was not seen may still land late at an
//     outside target, which is told the sequence number so that it can refuse.
//  5. Nothing is dropped silently: refused, duplicate, conflicting, held,
//     superseded, skipped, dead and indeterminate are counted, and what a person
//     must see is a row.
//
// Our tables are the truth; river_job is only a wake-up. Truncating it loses and
// doubles nothing.
//
// # How an event gets in
//
// [Gate.Accept] takes a verified [Admission]. Concurrent admissions are
// committed as one group, without lingering: handlers queue what they have
// prepared, a flusher takes whatever waits. A group is two round trips. The
// first inserts the events ON CONFLICT DO NOTHING and reads back all keys of the
// group, since its first statement's snapshot cannot see a row that committed
// while it waited for it. The second writes bodies, jobs and effects of the new
// ones, counts the others, and commits. The unique constraint inbox_event_key
// decides, nothing else.
//
// A COMMIT whose answer is lost, or is FATAL, is ambiguous: the group is run
// again with the same ids, and finds either room or its own rows. Only an ERROR
// is a rollback. What one delivery brings (a value, a held key) fails alone: the
// group is split, and each of its deliveries inherits what is left of its deadline,
// which counts from when it entered the gate. What every delivery would meet alone
// (the lock of a table, a cancelled statement) splits nothing: the group is run
// again until the deadline of its oldest delivery, and then answered at once.
//
// A delivery of more events than fit a group is committed in parts, with others
// beside and between them, and acknowledged when all are committed. The first part
// with a new event stores the body; each later one locks it before its events point
// to it. If a part fails, the sender's retry meets the committed ones as duplicates.
//
// A delivery whose key is known with other bytes is compared after the commit. If
// its canonical payload differs too it is a conflict: the event stays as it is, and
// the payload is stored in the table conflict before it is acknowledged, the newest
// five different ones of an event. A person may admit one as an event of its own
// ([AdmitConflict]), under an id that is made of the event's id and the payload's
// hash. A conflict keeps its event from being pruned. An operation's payload is not
// kept: its caller is told 409 and the difference.
//
// Keys that senders publish and that have verified something are rows ([VerifiedKey]), so
// that a process which starts need not fetch them beside forgeries that name others. They
// are copies: a lost row is fetched again.
//
// # How an effect gets done
//
// An effect is a row with a state ([EffectState]). A River job wakes a worker,
// which claims the effect under a lease token ([Effects.Claim]), makes one
// attempt and settles it ([Effects.Settle]), fenced by the token: a worker that
// lost its lease can finish nothing. Attempts are counted in the row. The
// sweeper of package jobs gives a new job to whatever is overdue and has none.
//
// A retry policy's deadline is asked in the claim and again before the first byte, so
// that nothing is sent after it, whatever held the effect up.
//
// An effect on an idempotent target whose attempts are used up is dead, also if
// one of them may have reached the target: as long as the target knows the key,
// sending it again does no harm, and a redelivery or a replay may. A caller is
// told indeterminate of it and not failed, since he would call under a new key.
//
// Of all effects of a route with one key by recipe, one happens: it owns the key, and
// the others are its duplicates with its outcome. An owner that is dead and certainly
// never happened, in none of its attempts, loses the key to the next effect that asks.
// Those that were its duplicates by then were told its failure and keep it; replayed, it
// becomes the duplicate of its successor and takes them along. An owner that may have
// happened keeps its key, whatever a person decides about it.
//
// # How order is kept
//
// What package sequence decides about a stream is decided in the claim and in the
// settlement, under the lock of the stream's row, in two round trips: the first
// locks and reads, the second writes what was decided and commits. The lock is
// never held while anything is attempted. Whichever of two comes second sees what
// the first has done, so that no wake-up is lost: an effect is held only under the
// lock, and whoever ends what is before it looks for it under the lock. The gate
// takes no such lock: what it admits is pending with a job of its own, which
// decides. A worker claims the next effect of a key in the transaction that
// settles the one before, and goes on with it; any other caller gives it a job.
// What follows it is read ahead, so that the settlement of each of them is one
// statement, which looks under the lock whether everything is as it was foreseen
// and does nothing if it is not. A process that does not know a route's policy
// wakes the first that is held, and the worker that claims it decides. Held
// effects have no job and no time, but for the first behind a gap; the sweeper
// looks through them and must find none that is free.
//
// Streams belong to the definition by which a route's order was defined when they
// began ([RegisterOrders]): the hash of a key has the definition in it, but for a
// route's first. A stream is decided by the order it came under, whatever the route's
// order is now, so that two definitions may be live at once.
//
// A sequence key is often a person's, and a plain hash of an email address is as good as the
// address. With a keyring the hash of a new definition's keys is an HMAC under a secret of
// the installation. The secret is sealed with the keyring and never rotated, only sealed
// anew, because the hash is the stream's identity: hashed under another secret, a key would
// have a second stream, and the two would not wait for each other. For the same reason a
// definition keeps what it was made with: streams of before have plain hashes until their
// route's order is defined another way, and a program that does not know secrets is refused
// by a trigger, when it registers the definition and when it makes a stream of it. The key
// itself is kept beside the hash for people, sealed like a body.
//
// One locked stream never holds up another: whatever takes several streams in one
// transaction leaves out those that somebody else has locked, and never waits for an
// effect that somebody else has. No wake-up is lost by that either. A claim that was
// left out keeps its job, which asks again. A settlement that was left out has not
// happened: it is tried alone, without a connection in between, until its lease ends.
// Sweeps, checks and replays come back to what they left out. Whoever is left out
// changes nothing that another decision could have looked for in vain. The server
// ends the transaction of a vanished process after about a lease, and a stream that
// stays locked is reported with the backend that has it.
//
// A list that one effect became has that effect's place: it is not settled before
// all its items are. In mode latest a list is refused, since a newer version
// supersedes an effect and not what it has become.
//
// # What becomes of an operation
//
// A caller that is not a provider gets a result: [Operations] renders it once
// all effects of the event are at rest, stores it, and every later answer is
// those bytes. Whoever asks first renders, under the event's lock; the worker
// tells of each attempt's end so that this is soon. What moves an effect out of
// its rest by decision forgets a result that is no longer true, in the same
// transaction: resolving ([Effects.Resolve]) one of indeterminate, a replay any
// that says less than done. Until the effects are at rest again the caller is
// told that it goes on: told of a failure that is being mended, he would call
// again under a new key, and it would happen twice.
//
// A caller whose operation failed calls again under a new key and names the old event
// as the new one's parent. From then on the old effects are repeated neither by a
// redelivery nor by a batch replay, nor by a probe: one wish, one effect. A person may
// still send one of them, by its id, who says that they know of the later call.
//
// SQL callers emit into the outbox in their own transactions; a [Relay] admits
// the rows through the gate and then deletes them. It looks from the front each
// time, since rows become visible in another order than their ids. What can never be
// admitted stays there, refused, until a person discards it.
//
// Order of arrival, for sources that have such a route: a deferred trigger gives each
// row its position when its transaction commits, under a lock that is held until the
// commit is visible. So positions are in the order of commits, and no row becomes
// visible behind one that a relay has seen. One relay at a time takes such a source:
// it admits the rows as one delivery of many events, whose time of receipt is later
// than all that the source was given before, by a time that the database keeps. The
// order holds from the process on that first registers such a route. It is that of
// commits on this server: what a standby shows, or when a caller learns of its
// commit, may be another.
//
// # How a replay goes
//
// [Replays.Plan] writes down, item by item, what a run would do: each effect with
// its state, reason, version and revision, whether it gets fresh attempts or why not, and what the [Judge]
// says would be sent today. [Replays.Start] takes a plan whose digest, made anew
// over its rows, is the one that was shown. [Replays.Step] then takes a few items
// at a time in one transaction under the lock of the replay's row: the effects
// leave their rest through settle, if they are still as the plan saw them, the items get
// their outcomes, the wake-ups their lowest priority. So a process may die
// anywhere, two may work on one replay, and a cancellation leaves each item done
// or as it was. A replay's rate is kept by the database's clock, in its row. Its
// job is only a wake-up too: the sweeper finds a running replay that has none.
//
// A plan never overrides a decision. Whatever takes an effect out of a state at rest, and
// whatever is decided about one that stays there (its event is erased, its stream goes on
// without it, another payload of its event is admitted), moves the effect's revision, in
// the transaction that does it. A run leaves an effect of another revision alone, and its
// item says who decided since the plan. The version, by contrast, counts how often an effect
// was given fresh attempts; attempts are numbered by it, and new keys are made of it.
//
// Under its own key an effect sends the bytes that were stored for it, whatever
// the configuration says today: one key, one body. Under a new key, which is the
// old one with the version behind it, it is rendered anew. An ordered effect
// becomes pending like any other, and the claim decides by the policy for late
// ones. A duplicate is replayed as its owner. A route that is ordered and new to an
// event gets no effect of it: places in a sequence are given when events come, and an
// effect without one would pass those that have. The plan says so.
//
// # How things go
//
// A [Pruner] removes what is past its horizon ([Horizons]) and needed by nothing:
// whole days of bodies, settled effects with their attempts, then events that have
// no effect left, keys and streams that nothing can ask for any more, and records.
// Only one pass runs at a time, but every batch is safe without that: rows are
// locked with SKIP LOCKED by one statement and looked at again by the next. A walk
// goes on where the last pass ended and begins anew once a day; what was left
// behind is found then.
//
// A body that is still needed when its day goes is copied to the class "kept", and
// its event's pointer with it: before the day is detached, and again after, when
// nobody new can reach it. In between, and if a pass is killed there until the next
// one, a body that became needed that very moment counts as gone: its effect is
// dead with that reason, and can be replayed. A body belongs to the class under
// which it came; if its source keeps bodies for longer since, it is kept.
//
// [EraseEvent] removes the content of one event. Its pointer then names the class
// "erased", which no body has. The sequence keys of the event's streams go with it, also
// where other events of these streams stay: the key is the same person's. A stream is
// known by the hash of its key, so it stays where it is, and a later event of the key
// belongs to it; a fresh stream would start the order over and let an older version
// through. The gate writes the key that people see only when it makes a stream, so it does
// not come back. Tombstones outlive the gate's horizon by an hour, so
// that no event falls between known and too old.
//
// # How processes know of each other
//
// Every process has a row in the table node ([Node]) with its version, its roles, a
// fingerprint of its configuration and the sealing keys it holds, and renews it every
// few seconds. What is only safe if all of them know something asks there first: a
// sealing key is known to all before one seals with it ([Lacking]), and goes when
// nobody seals with it any more ([Sealing]). An effect whose key its process lacks
// waits, without an attempt: another process may have the key.
//
// The row also names the routes that a process works. An effect whose route the fetching
// process does not know is handed over to the live processes that work it, as the last
// heartbeat saw them ([Peers]): its wake-up gets a kind that only they fetch. If they
// vanish, the sweeper takes such wake-ups back. With no process that knows the route the
// effect is put off, for longer and longer, until one starts and recalls it
// ([Effects.RecallStrays]).
//
// # What is kept of refusals
//
// A refusal helps a person and promises nothing, but a secret that was rotated too early
// is mended by admitting what was refused meanwhile ([Reverify]). Nobody needs a secret to
// be refused, so a source divides its room for refusals ([Refusals]) evenly: first by
// diagnosis, then by peer. A peer with more than an even share loses its own oldest ones.
// Most diagnoses are proved by undoing the mistake, which takes the secret, so forgers cannot
// reach the share of one. A part of each rate, and of the queue in memory, is kept
// for peers that have hardly used it. Forgers with very many addresses still share
// one diagnosis with a sender whose secret is simply another one.
//
// # How names change
//
// A source or route of the configuration is found by its name. [Register] renames a row
// whose name is among the previous names of the configuration, under a lock on both
// tables, and writes down each renaming. One that was applied is never applied again, and
// a name of the past leads to the row that had it, so that a process which starts with an
// earlier configuration neither makes the old name anew nor renames anything back. An
// earlier version of the program is stopped from it by a trigger. Keys are made with
// the first name of a row for ever; no two rows have the same one. [Register] refuses
// what would make old events new: a new source beside one of its provider that holds keys
// and is gone from the configuration, and another provider for the keys of a source. It
// refuses another recipe of keys, too, while there are keys of the old one.
//
// Lease tokens say to which targets their process sends ([RegisterRouting]). An effect
// keeps the token of its first attempt that may have happened, so that a process which has
// another target for the route does not send it there ([Effects.Elsewhere]).
//
// # What a session must be
//
// The promise rests on the settings of a session: that a commit waits for the disk, which
// schema a name means, how long a lock is waited for. A pool sets them by statement on
// every connection it makes, reads them back, and refuses a connection that differs;
// package session says how, and how a pooler that shares sessions is found out. A
// connection that was idle is asked for its session in place of a ping, so none of this
// costs a delivery or an effect a round trip. After a pooler in session mode is reloaded
// into transaction mode, up to five seconds may pass before all pools refuse to work; the
// server's connections keep their settings in that time, unless the pooler opens new ones.
//
// # What readiness asks
//
// [Writable] asks whether the database takes writes. [CommitProbe] commits every few
// seconds, as the gate would, so that a database which takes no commits is noticed while
// nobody delivers; it lets one commit wait for as long as it takes, because one that is
// given up goes on waiting inside the server. [Gate.Ready] tells a gate that cannot commit
// from one that has met a bad delivery, and is cleared by [Gate.Committed] when the
// balancer sends nothing that could.
//
// # How clocks and connections fail
//
// [Clock] compares this machine's clock with the database's. Neither is known to be
// right: while they differ, or could not be compared in the last seconds, a delivery
// whose only fault is its time is a fault of ours ([Clock.Doubted]). That is only
// asked of a delivery that verifies otherwise, so that a sender of stale signatures
// gets nobody's deliveries put off but their own.
//
// A connection may fall silent, without a reset and without an answer. Each statement
// of claims, settlements, sweeps and checks has a deadline by the lease, those that
// River makes without one have it from the connection ([OpenPoolWithin]), and a pool
// one of whose connections owed an answer in vain is renewed, since the others most
// likely went the same way. The gate sets no deadline of the server's, for a statement
// timeout would also hit a COMMIT that waits for a standby; nor does the work pool.
//
// # Where this differs from the design it was built on
//
// The gate inserts River's jobs by SQL of its own, with ids reserved from
// River's sequence in the first round trip, so that effects and jobs need no
// third one; a test compares the rows with those that River makes. Connections
// of the gate plan without sequential scans and with generic plans: every
// statement has its index, and the tables start empty and never analysed.
// Every pool asks for synchronous_commit itself, whatever the database is set to.
// The second flusher begins only when the first stalls: two groups at once are
// half as large and cost more each. Two small packages stand beside those of the
// design, because more than one of them needs each: egress, the one guard of
// everything that leaves, and expression, which evaluates the configuration's
// expressions about an event. In mode latest an unknown outcome counts as applied:
// an older version must not follow what may have happened. In mode arrival an
// effect's sequence number is the time of its receipt, so that a target can refuse
// there too.
package inbox
