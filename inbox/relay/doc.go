// Package relay admits what SQL callers have written into the outbox in their own transactions.
//
// Call [New] with the gate, then [Relay.Start]; [Relay.Run] makes one pass. A row is deleted once the gate has recorded its
// event, and not before: a relay that dies has lost nothing, and the gate recognises what it relays twice.
//
// # How the outbox is emptied
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
package relay
