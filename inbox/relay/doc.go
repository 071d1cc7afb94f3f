// Package relay admits what SQL callers have written into the outbox in their own transactions.
//
// Call [New] with the gate, then [Relay.Start]; [Relay.Run] makes one pass. A row is deleted once the gate has recorded its
// event, and not before: a relay that dies has lost nothing, and the gate recognises what it relays twice.
//
// # How the outbox is emptied
//
// SQL callers emit into the outbox in their own transactions; a [Relay] admits
// the rows through the gate and then deletes them. It looks from the front each
// time. What can never be admitted stays there, refused, until a person discards it.
//
// A deferred trigger assigns each row its position when its transaction commits, under a lock that is held until the
// commit is visible. Rows of one event share a lock, so their positions are in the order of their commits, and a relay that
// sees a row also sees the rows of the same event that committed before it. One relay at a time takes the rows of a source, by
// position. So the payload that committed first is the event, and the later ones are its duplicates and conflicts, on every
// source. This is the order of commits on this server. A standby may show them in another order, and callers may learn of
// their commits in another order.
//
// Order of arrival, for sources that have such a route: all rows of the source share a lock, and the relay admits them as one
// delivery of many events, whose places the gate assigns in this order. The order is guaranteed from the time when the first
// process registers such a route.
package relay
