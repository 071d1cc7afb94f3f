// Package oncegatetest tests programs that embed Oncegate, on a real PostgreSQL and with deliveries that are signed as
// their senders sign them.
//
// [Start] runs an Inbox in a schema of its own for one test. [Inbox.Deliver] delivers an event of any sender of the
// catalogue, [Inbox.Wait] waits until nothing is left to do, and [Inbox.Effects] says what became of an event:
//
//	og := oncegatetest.Start(t, cfg, func(og *oncegate.Inbox) { _ = og.Handle("ledger", book) })
//	paid := oncegatetest.Delivery{Source: "stripe", EventID: "evt_1", Type: "invoice.paid"}
//	og.Deliver(t, paid)
//	og.Deliver(t, paid) // the sender repeats it
//	og.Wait(t)
//
// The handlers, the gate, the order of effects and their retries are those of production: nothing is simulated. The
// guide docs/guides/testing.md shows tests of retries, of permanent errors and of the program's own HTTP server.
package oncegatetest
