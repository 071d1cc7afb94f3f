// Package outage is the campaign of the buffer: deliveries come without a pause while PostgreSQL is killed, frozen or cut off, its
// synchronous standby is promoted, and servers of the buffer are killed. Each delivery is sent once, as by a sender that never delivers
// again. In the end every delivery that was answered 2xx must have had its effect once, in the order of its customer, and no delivery
// may have been refused while only the database was away.
package outage
