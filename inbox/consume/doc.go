// Package consume takes the messages of a source from a broker, passes them on to be verified and recorded, and acknowledges
// them afterwards. It depends on no HTTP, no storage and no particular broker.
//
// # The promise
//
// The consumer acknowledges a message only after it is recorded or kept as a refusal. If the process is killed in between, or
// the broker delivers the message again, the gate recognises the duplicate, and nothing is lost. In each lane, the consumer
// acknowledges only the messages before the first unsettled one, because Kafka stores a single position for each lane.
//
// The messages of a group are passed on at once, so that the gate commits them together. Where the order of arrival
// matters, the messages of a lane are passed on one after the other, and only the lanes at once.
//
// # What does not stop a lane
//
// A message that cannot be used becomes an unusable event, and a message that does not verify becomes a refusal, because a
// second delivery would end in the same way. A message waits only for temporary causes: the gate is overloaded or
// unavailable, a quota is used up, or a key cannot be fetched. The consumer then tries the group again for a while, and
// returns it to the broker.
//
// The broker forgets refused messages, and Oncegate keeps a limited number of them. If a hundred messages in a row are
// refused, a wrong secret is more likely than a hundred forgeries. The consumer then takes one message a minute until one
// verifies.
package consume
