// Package wrong breaks promises of the product on purpose, from outside, so that a trial can show that it notices. The
// product itself has no switch for that.
package wrong

import (
	"bytes"
	"context"
	"net"
)

// Dial makes connections.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// Unlocked makes connections to PostgreSQL over which no statement locks streams: what asks for the lock of a row of
// alias s is blanked in the text of the statement, on its way. The connection must not be encrypted.
func Unlocked(dial Dial) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return unlocked{conn}, nil
	}
}

type unlocked struct{ net.Conn }

// replacements are as long as what they replace, since a message says how long it is. pgx writes whole messages. The last
// one has a worker find nothing of what it read ahead, so that each settlement decides anew: what goes on by itself locks
// every effect that it changes, and would hide that streams are not locked.
var replacements = []struct{ text, instead []byte }{
	{[]byte("FOR UPDATE OF s SKIP LOCKED"), []byte("                           ")},
	{[]byte("FOR UPDATE OF s"), []byte("               ")},
	{[]byte("s.in_flight = a.id"), []byte("false             ")},
}

// Write implements [net.Conn].
func (c unlocked) Write(b []byte) (int, error) {
	for _, r := range replacements {
		if bytes.Contains(b, r.text) {
			b = bytes.ReplaceAll(b, r.text, r.instead)
		}
	}
	return c.Conn.Write(b)
}
