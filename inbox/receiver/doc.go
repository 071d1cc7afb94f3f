// Package receiver takes deliveries over HTTP. [New] makes a [Receiver] of the sources and the
// gate; [Receiver.Handler] serves it, and [NewServer] with [Connections] is the server that bounds
// what senders can cost. A program that embeds Oncegate mounts (*oncegate.Inbox).Handler
// instead. [Readmit] verifies again what was refused and kept.
//
// The receiver bounds what a delivery may cost, has the source's provider verify it, passes
// verified deliveries to the gate and answers with what the gate has committed.
//
// A source offers one of two products, webhooks or operations. They share the way of a request until its body has arrived.
// Then the product verifies the request, passes it to the gate and decides the answer.
//
// The order of a delivery is fixed: source, method, encodings and size are checked before the body
// is read; the body is read within a deadline, at a least rate, and into memory of a budget shared
// by all; it is verified as the exact bytes received before anything looks into it; only then does
// the gate see it. Each product has one function that decides every status. An
// unknown outcome is a fault of ours, which it answers with 503, so that the sender delivers
// again.
//
// The memory for bodies is charged as bytes arrive. If memory is missing, the slowest bodies that
// are still arriving are shed and answered with 503: a sender that announces much and sends little
// cannot keep others out. A part of the memory is reserved for small bodies and a part for each
// source, and one peer's bodies make room for each other first.
//
// [Connections] bounds the connections of all peers and of each. At a limit it
// closes those that bring nothing, and does not refuse new ones for them.
package receiver
