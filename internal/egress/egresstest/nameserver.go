// Package egresstest has a name server with configurable answers, for tests of code that dials by
// name.
package egresstest

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// NameServer is a name server on the loopback interface.
type NameServer struct {
	conn  net.PacketConn
	asked atomic.Int64
}

// NewNameServer starts a server that answers each query for an IPv4 address with the next of the
// addresses, and repeats the last one. Its answers have a TTL of 0. The answer "" means that the
// name does not exist. Without any answers the server never replies. It stops at the end of the
// test.
func NewNameServer(tb testing.TB, answers ...string) *NameServer {
	tb.Helper()
	var config net.ListenConfig
	conn, err := config.ListenPacket(tb.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	s := &NameServer{conn: conn}
	go s.serve(answers)
	return s
}

// Asked returns how many queries for an IPv4 address the server has answered.
func (s *NameServer) Asked() int64 { return s.asked.Load() }

// Resolver returns a resolver that queries only this server.
func (s *NameServer) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
}

func (s *NameServer) serve(answers []string) {
	buf := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 || len(answers) == 0 {
			continue
		}
		m.Response, m.Additionals = true, nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			answer := answers[min(int(s.asked.Add(1))-1, len(answers)-1)]
			if answer == "" {
				m.RCode = dnsmessage.RCodeNameError
			} else {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 0},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(answer).As4()},
				}}
			}
		}
		if packed, err := m.Pack(); err == nil {
			_, _ = s.conn.WriteTo(packed, from)
		}
	}
}
