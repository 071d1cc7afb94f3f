// Package wrong breaks guarantees of the product on purpose, from outside, so that a trial can show that it notices.
// The product itself has no switch for that.
package wrong

import (
	"bytes"
	"context"
	"net"
)

// Dial makes connections.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// Unlocked makes connections to PostgreSQL over which no statement locks streams. It blanks the clause that locks the
// row of alias s in the text of each statement on its way. The connection must not be encrypted.
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

// replacements are as long as the texts that they replace, because a message contains its length. pgx writes whole messages.
// The last one disables the statement with which a settlement continues with the next effect as foreseen, so that each
// settlement decides again. That statement locks every effect that it changes, which would hide that streams are not locked.
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
