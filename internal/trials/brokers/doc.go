// Package brokers tries the way of an event through a message broker: a webhook that one Oncegate publishes, and that
// another one consumes into its own inbox.
//
// [Run] sends deliveries, some of them twice at once, and kills the publisher, the broker or the consumer meanwhile, each
// with SIGKILL. [Check] compares in the end: every delivery that was acknowledged is applied once at the far end, in the
// order of its customer, although the broker itself may have several messages of it. How many of those there are is the
// campaign's second result: what each broker doubles by itself.
//
// The brokers are the distribution's nats-server and rabbitmq-server, so only ./scripts/brokers runs it.
package brokers
