package faulttest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// wiretap collects what the clients of a NATS server send to it. It has every message that the server may have, also a
// repetition that the stream recognises and does not store.
type wiretap struct {
	mu    sync.Mutex
	conns [][]byte
}

// add begins a connection, and returns what takes its bytes.
func (w *wiretap) add() func([]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := len(w.conns)
	w.conns = append(w.conns, nil)
	return func(p []byte) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.conns[at] = append(w.conns[at], p...)
	}
}

// messages returns the messages that were sent completely to [Subject]
// (https://docs.nats.io/reference/reference-protocols/nats-protocol#hpub).
func (w *wiretap) messages() (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, sent := range w.conns {
		for {
			_, after, found := bytes.Cut(sent, []byte("HPUB "+Subject+" "))
			line, rest, complete := bytes.Cut(after, []byte("\r\n"))
			if !found || !complete {
				break
			}
			var reply string
			var head, all int
			if _, err := fmt.Sscan(string(line), &reply, &head, &all); err != nil || len(rest) < all {
				break
			}
			out = append(out, natsFixed(string(rest[:head]), rest[head:all]))
			sent = rest[all:]
		}
	}
	return out
}

// natsFixed returns the text of a message whose headers are as on the wire.
func natsFixed(head string, body []byte) string {
	lines := strings.Split(strings.TrimSpace(head), "\r\n")[1:] // without the version
	return fixed(slices.Clone(lines), body)
}
