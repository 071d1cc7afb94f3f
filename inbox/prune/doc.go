// Package prune removes what is past its horizon, erases what a person wants gone before, and seals again what is kept.
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
// A [Pruner] removes what is past its horizon ([Horizons]) and needed by nothing:
// whole days of bodies, settled effects with their attempts, then events that have
// no effect left, keys and streams that nothing can ask for any more, and records:
// refusals, sessions of agents a day after they expired, replays and audits.
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
package prune
