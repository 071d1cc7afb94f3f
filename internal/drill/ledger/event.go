package ledger

import "crypto/sha256"

// Event is what the senders know about one event.
type Event struct {
	// ID is the sender's id of the event. Source is the name of the source, and Type the type of the event.
	ID, Source, Type string

	// Subject is what the event is about. Routes with an effect key carry out one of the events about a subject.
	Subject string

	// Stream and Number are the event's place in an order. Stream is empty without one.
	Stream string
	Number int

	Body []byte
	SHA  [sha256.Size]byte

	// Forged says that the event was sent only with a wrong signature.
	Forged bool

	Acked      int // answers of 2xx
	Recorded   int // of these, the answers that called the event new
	Refused    int // answers of 4xx
	OddAnswers int // answers that no delivery may get

	// Conflicting has, by their hash, the payloads that were delivered under the event's id after the event had been
	// acknowledged.
	Conflicting map[[sha256.Size]byte]Conflict
}

// Conflict is what the senders know about a payload that conflicts with its event. Its times count requests.
type Conflict struct {
	Acked int

	// LastAckSentAt is when the last acknowledged request was sent, and LastAnsweredAt when the last request was
	// answered. A request without an answer may still arrive at any time.
	LastAckSentAt, LastAnsweredAt int
}

// Answer is how a request ended.
type Answer struct {
	// Status is the HTTP status, or 0 if no answer came.
	Status int

	// Receipt is the status in an answer of 2xx: recorded, duplicate or conflict.
	Receipt string

	// ConnectionRefused says that no process was listening, so that nothing was sent.
	ConnectionRefused bool
}

// Acknowledged reports whether the answer promises that the event is recorded.
func (a Answer) Acknowledged() bool { return a.Status/100 == 2 }

// Judged reports whether a server that works gave the answer.
func (a Answer) Judged() bool { return a.Status != 0 && a.Status/100 != 5 }
