// Package prune removes rows that are past their horizon, erases the content of an event on request, and seals the kept
// rows again.
//
// Call [New], then [Pruner.DryRun] to see what a pass would take and [Pruner.Run] for one pass, in as many processes as you
// like: one at a time gets the lock ([advisory.Prune]) and the others report that they did not. [EraseEvent] removes the
// content of one event. [Reseal] seals everything with the active key of the keyring.
//
// By itself, prune never takes
//   - an effect that is not at rest, or that is dead or indeterminate: a person must name these ([Run].Include);
//   - a body that an effect still needs: it is copied to the class "kept" when its day goes;
//   - a key, as long as a duplicate of its event may come: tombstones outlive the gate's horizon by an hour;
//   - a stream that has a gap or a block;
//   - any row that a check still reads whose absence would let something happen twice: [inbox.Guards] is the list of these
//     checks, and the statements of prune are made of it.
//
// # How a pass goes
//
// A [Pruner] removes rows that are past their horizon ([Horizons]) and that nothing needs: whole days of bodies,
// settled effects with their attempts, then events that have no effect left, keys and streams that can no longer be
// asked for, and records: refusals, sessions of agents a day after they expired, replays and audits. Only one pass runs
// at a time, but every batch is safe without that: one statement locks rows with SKIP LOCKED and the next one checks
// them again. A walk continues where the last pass ended and starts over once a day, when it finds the rows that it
// left before.
//
// A body that is still needed when its day is removed is copied to the class "kept", and its event's pointer is
// changed: before the day is detached, and again after, when no new event can refer to it. In between, or until the
// next pass if this one is killed there, a body that became needed in that moment counts as gone: its effect is dead
// with that reason, and can be replayed. A body belongs to the class under which it came; if its source has a longer
// horizon for bodies since, it is kept.
//
// [EraseEvent] removes the content of one event. Its pointer then names the class "erased", which no body has. The
// sequence keys of the event's streams are erased with it, even if other events of these streams stay, because the key
// belongs to the same person. A stream is identified by the hash of its key, so its row stays, and a later event of the
// key belongs to it; a new stream would start the order over and let an older version through. The gate writes the
// readable key only when it makes a stream, so it does not come back. Tombstones outlive the gate's horizon by an hour,
// so that no event falls between known and too old.
package prune
