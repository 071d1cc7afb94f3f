// Package gate records a delivery once: the insert of an event's key is what decides, and nothing before it.
//
// Call [New], then [Gate.Start], then [Gate.Accept] for each verified admission, from as many goroutines as there are
// deliveries. Acknowledge a delivery only if Accept returned no error: its event, body, effects and jobs are committed then.
// [ErrOverloaded] and [ErrUnavailable] ask the sender to deliver again. [Gate.Ready] and a [CommitProbe] tell whether the
// database takes commits at all.
//
// The gate writes inbox_event, inbox_body, effect, stream, conflict and river_job, and takes no lock of a stream.
//
// # How an event gets in
//
// [Gate.Accept] takes a verified [inbox.Admission]. Concurrent admissions are
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
// ([inbox.AdmitConflict]), under an id that is made of the event's id and the payload's
// hash. A conflict keeps its event from being pruned. An operation's payload is not
// kept: its caller is told 409 and the difference.
//
// Keys that senders publish and that have verified something are rows ([inbox.VerifiedKey]), so
// that a process which starts need not fetch them beside forgeries that name others. They
// are copies: a lost row is fetched again.
//
// # What readiness asks
//
// [inbox.Writable] asks whether the database takes writes. [CommitProbe] commits every few
// seconds, as the gate would, so that a database which takes no commits is noticed while
// nobody delivers; it lets one commit wait for as long as it takes, because one that is
// given up goes on waiting inside the server. [Gate.Ready] tells a gate that cannot commit
// from one that has met a bad delivery, and is cleared by [Gate.Committed] when the
// balancer sends nothing that could.
package gate
