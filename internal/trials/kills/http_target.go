package kills

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/oncegate/oncegate/internal/drill/ledger"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// target is a listener for one worker and one kind of target, so that the campaign knows whose request it is holding.
type target struct {
	slot     int
	route    Route
	received *ledger.Received
	script   *script
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func startTarget(slot int, route Route, received *ledger.Received, s *script) (*target, error) {
	t := &target{slot: slot, route: route, received: received, script: s, conns: map[net.Conn]struct{}{}}
	var err error
	if t.listener, err = rig.Listen(); err != nil {
		return nil, err
	}
	t.running.Go(t.accept)
	return t, nil
}

func (t *target) address() string { return t.listener.Addr().String() }

func (t *target) accept() {
	for {
		conn, err := t.listener.Accept()
		if err != nil {
			return
		}
		t.mu.Lock()
		t.conns[conn] = struct{}{}
		t.mu.Unlock()
		t.running.Go(func() {
			defer func() {
				_ = conn.Close() // it may have been reset
				t.mu.Lock()
				delete(t.conns, conn)
				t.mu.Unlock()
			}()
			if t.route == Mail {
				t.serveMail(conn)
			} else {
				t.serve(conn)
			}
		})
	}
}

// close closes all connections and returns when they have ended.
func (t *target) close() error {
	err := t.listener.Close()
	t.mu.Lock()
	for conn := range t.conns {
		_ = conn.Close()
	}
	t.mu.Unlock()
	t.running.Wait()
	return err
}

// reset drops a connection with a RST, so that the other end learns of it immediately.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// serve speaks HTTP on one connection. The standard library's server cannot hold or cut a connection at each of these
// points.
func (t *target) serve(conn net.Conn) {
	reader := bufio.NewReader(conn)
	for n := 0; ; n++ {
		if _, err := reader.Peek(1); err != nil {
			return
		}
		switch t.script.takeNext(t.route) {
		case holdUnread:
			t.script.hold(t.slot, t.route, "")
			return
		case resetUnread:
			reset(conn)
			t.script.finishedActs <- resetUnread
			return
		case "", holdRead, holdAnswer, resetRead, resetReused, answerBusy: // these come after the request was read
		}
		event, err := t.readRequest(reader)
		if err != nil {
			return // the worker was killed in the middle of the request
		}
		if n > 0 && t.script.takeReused() {
			reset(conn)
			t.script.finishedActs <- resetReused
			return
		}
		switch t.script.takeEvent(event) {
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

// readRequest reads one request and records it in the ledger.
func (t *target) readRequest(reader *bufio.Reader) (event string, err error) {
	req, err := http.ReadRequest(reader)
	if err != nil {
		return "", err
	}
	return t.received.Read(req)
}
