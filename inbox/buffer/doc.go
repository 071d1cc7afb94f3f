// Package buffer keeps verified deliveries in a stream of NATS JetStream while the gate cannot record them, so that their
// senders get a 2xx all the same.
//
// [Buffer.Accept] is called in place of the gate. It passes a delivery to the gate. If the gate cannot commit it in time because
// the database is away, Accept publishes the delivery to the stream and returns [ErrBuffered] after enough servers have stored it.
// While the gate fails, a circuit breaker sends deliveries to the stream without asking the gate, except one in each second that
// finds out whether the gate works again.
//
// [Buffer.Admit] is the way back: a consumer of the stream calls it for each message, and acknowledges the message after the gate
// has committed it. A delivery may be in the stream although the gate has recorded it, because the answer to its COMMIT was lost.
// It may be in the stream twice, because the answer to its publication was lost. The gate recognises both as duplicates.
//
// A message contains the admission that the receiver made of the verified delivery. It is sealed with the keyring if there is
// one. Without a keyring, everybody who may publish to the stream can have events recorded that no sender has sent.
package buffer
