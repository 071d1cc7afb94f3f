package cli_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

type programKey struct{}

// localProgram is a program on this machine that takes events. It starts late, and remembers its requests.
type localProgram struct {
	address string

	mu       sync.Mutex
	requests []string
	bodies   []string
	status   int
	answer   string
}

// ServeHTTP implements [http.Handler].
func (p *localProgram) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s\n", r.Method, r.URL.RequestURI())
	_ = r.Header.Write(&text)
	p.requests, p.bodies = append(p.requests, strings.ReplaceAll(text.String(), "\r\n", "\n")), append(p.bodies, string(body))
	w.WriteHeader(p.status)
	_, _ = io.WriteString(w, p.answer)
}

// program NAME PORT chooses the address of a program, and sets both variables. Then `program start` starts it, `program
// answer STATUS TEXT` changes its answer, `program requests` prints the requests that it got, and `program body N` the
// body of the Nth.
func program(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: program name port | start | answer status text | requests | body n")
	}
	p := ts.Value(programKey{}).(*localProgram)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case args[0] == "start":
		listener, err := net.Listen("tcp", p.address)
		ts.Check(err)
		server := httptest.NewUnstartedServer(p)
		ts.Check(server.Listener.Close())
		server.Listener = listener
		server.Start()
		ts.Defer(server.Close)
	case args[0] == "answer" && len(args) == 3:
		status, err := strconv.Atoi(args[1])
		ts.Check(err)
		p.status, p.answer = status, args[2]
	case args[0] == "requests":
		_, err := io.WriteString(ts.Stdout(), strings.Join(p.requests, "\n"))
		ts.Check(err)
	case args[0] == "body" && len(args) == 2:
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		if n < 1 || n > len(p.bodies) {
			ts.Fatalf("there are %d requests", len(p.bodies))
		}
		_, err = io.WriteString(ts.Stdout(), p.bodies[n-1])
		ts.Check(err)
	case len(args) == 2:
		p.address, p.status = ts.Getenv("FREE_PROGRAM"), http.StatusOK
		_, port, err := net.SplitHostPort(p.address)
		ts.Check(err)
		ts.Setenv(args[0], "http://"+p.address)
		ts.Setenv(args[1], port)
	default:
		ts.Fatalf("usage: program name port | start | answer status text | requests | body n")
	}
}
