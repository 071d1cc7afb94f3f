package effecttest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Target is a target whose connections are answered by a script, byte by byte.
type Target struct {
	URL string

	mu       sync.Mutex
	requests []Request
}

// Request is one request as the target read it.
type Request struct {
	Method string
	Path   string
	Header http.Header
	Body   string
}

// Script answers one request. After it returns, the target reads the next request, unless the
// request asked to close the connection.
type Script func(conn net.Conn, req Request)

// NewTarget starts a target on the loopback interface. It ends with the test.
func NewTarget(tb testing.TB, script Script) *Target {
	tb.Helper()
	t := &Target{}
	t.URL = "http://" + listen(tb, func(conn net.Conn) { t.serve(conn, script) }) + "/hook"
	return t
}

func (t *Target) serve(conn net.Conn, script Script) {
	reader := bufio.NewReader(conn)
	for {
		got, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		body, err := io.ReadAll(got.Body)
		if err != nil {
			return
		}
		req := Request{Method: got.Method, Path: got.URL.Path, Header: got.Header, Body: string(body)}
		t.mu.Lock()
		t.requests = append(t.requests, req)
		t.mu.Unlock()
		script(conn, req)
		if got.Close {
			return
		}
	}
}

// Requests returns the requests read so far.
func (t *Target) Requests() []Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Request(nil), t.requests...)
}

// Reply writes a complete reply.
func Reply(conn net.Conn, status string, header http.Header, body string) {
	var b strings.Builder
	b.WriteString("HTTP/1.1 " + status + "\r\n")
	_ = header.Write(&b)
	b.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	_, _ = io.WriteString(conn, b.String())
}
