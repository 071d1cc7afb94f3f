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
// [Gate.Accept] takes a verified [inbox.Admission]. Concurrent admissions are committed as one group, without
// lingering: handlers queue prepared deliveries, and a flusher takes all that wait. Only the unique constraint
// inbox_event_key decides: the events are inserted ON CONFLICT DO NOTHING.
//
// A group usually takes one round trip, because most deliveries are new. The statements after the insertion write the
// bodies, effects and jobs of those events that have our own ids, which only this transaction can have inserted. Events
// that were not inserted follow in a second transaction of two round trips. The first inserts once more and reads back
// the keys, because the insertion's snapshot cannot see a row that was committed while it waited for that row. The second
// counts them and commits. A group takes only these two steps if the one before had a repetition, if a delivery of it was
// tried before, has several events, or depends on other calls.
//
// A COMMIT whose answer is lost, or is FATAL, is ambiguous: the group runs again with the same ids, and finds either
// room or its own rows. Only an ERROR is a rollback. A fault of one delivery (a value, a locked key) fails only that
// delivery: the group is split, and each of its deliveries keeps the rest of its deadline, which counts from when it
// entered the gate. A fault that every delivery would meet alone (the lock of a table, a cancelled statement) splits
// nothing: the group runs again until the deadline of its oldest delivery, and then all of it is answered.
//
// A delivery of more events than fit a group is committed in parts, together with other deliveries and with others in
// between, and acknowledged when all parts are committed. The first part with a new event stores the body; each later
// one locks it before its events refer to it. If a part fails, the committed events are duplicates when the sender
// delivers again.
//
// A delivery whose key is recorded with other bytes is compared after the commit. If its canonical payload differs too,
// it is a conflict: the event does not change, and the payload is stored in the table conflict before it is
// acknowledged, the newest five different ones of an event. A person may admit one as a separate event
// ([decide.AdmitConflict]), under an id that is made of the event's id and the payload's hash. A conflict prevents its
// event from being pruned. Package conflict compares and keeps. An operation's payload is not kept: the answer to its caller is 409 and the difference.
//
// Keys that senders publish and that have verified a delivery are rows ([inbox.VerifiedKey]), so that a starting
// process need not fetch them while forgeries make it fetch others. They are copies: a lost row is fetched again.
//
// # What readiness asks
//
// [inbox.Writable] checks whether the database takes writes. [CommitProbe] commits every few seconds, as the gate
// would, so that a database which takes no commits is noticed even without deliveries. It lets one commit wait for as
// long as it takes, because an abandoned commit continues to wait inside the server. [Gate.Ready] distinguishes a gate
// that cannot commit from one that has met a bad delivery. [Gate.Committed] clears it if the balancer sends no delivery
// that could.
package gate
