package kills

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/oncegate/oncegate/internal/drill/ledger"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// target serves one worker and one kind of target, so that the campaign knows whose request it is holding.
type target struct {
	slot     int
	route    Route
	received *ledger.Received
	script   *script
}

// serve serves one connection.
func (t *target) serve(conn net.Conn) {
	if t.route != Mail {
		t.serveHTTP(conn)
		return
	}
	rig.ServeMail(conn, func(m rig.Mail) (answer bool) {
		event, _, _ := strings.Cut(m.Recipient, "@") // the messages of all events look alike
		t.received.Add(event, m.ID, "", m.Content)
		if t.script.take(event) == holdRead && !t.script.hold(t.slot, t.route, event) {
			return false
		}
		t.received.Answered(event)
		return true
	})
}

// reset drops a connection with a RST, so that the other end learns of it immediately.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// serveHTTP speaks HTTP on one connection. The standard library's server cannot hold or cut a connection at each of these
// points.
func (t *target) serveHTTP(conn net.Conn) {
	reader := bufio.NewReader(conn)
	for n := 0; ; n++ {
		if _, err := reader.Peek(1); err != nil {
			return
		}
		switch t.script.take(anyOf(t.route)) {
		case holdUnread:
			t.script.hold(t.slot, t.route, "")
			return
		case resetUnread:
			reset(conn)
			t.script.finishedActs <- resetUnread
			return
		case "", holdRead, holdAnswer, resetRead, resetReused, answerBusy: // these come after the request was read
		}
		req, err := http.ReadRequest(reader)
		if err != nil {
			return // the worker was killed in the middle of the request
		}
		event, err := t.received.Read(req)
		if err != nil {
			return // likewise
		}
		if n > 0 && t.script.take(anyReused) != "" {
			reset(conn)
			t.script.finishedActs <- resetReused
			return
		}
		switch t.script.take(event) {
		case holdRead:
			if !t.script.hold(t.slot, t.route, event) {
				return
			}
		case holdAnswer:
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf") // the worker waits for the rest
			t.script.hold(t.slot, t.route, event)
			return
		case resetRead:
			reset(conn)
			t.script.finishedActs <- resetRead
			return
		case answerBusy: // it has done the work: what was read to its end has happened
			if _, err := io.WriteString(conn, "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"); err != nil {
				return
			}
			t.script.finishedActs <- answerBusy
			continue
		case "", holdUnread, resetUnread, resetReused: // these came before
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
		t.received.Answered(event)
	}
}
