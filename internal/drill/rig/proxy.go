package rig

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Cut is where a [Proxy] drops a connection to PostgreSQL.
type Cut string

// The places. In both cases of a COMMIT, the client cannot tell whether its transaction was committed.
const (
	// CutBefore drops the connection with the COMMIT, which the server never gets.
	CutBefore Cut = "before COMMIT"
	// CutAfter drops it with the answer to the COMMIT, which the server has carried out.
	CutAfter Cut = "after COMMIT"
	// CutStatement drops it with a statement, which the server never gets.
	CutStatement Cut = "before a statement"
	// CutAnswer drops it with the answer to a statement, which the server has carried out and, if it was alone,
	// committed.
	CutAnswer Cut = "after a statement"
)

// Proxy forwards connections between a process and PostgreSQL. It recognises what the process does and can drop a
// connection at a COMMIT.
type Proxy struct {
	listener net.Listener
	server   upstream
	words    []string
	running  sync.WaitGroup

	mu         sync.Mutex
	conns      map[*proxyConn]struct{}
	statements map[string][]byte // names of the prepared statements that hold a word
	cut        Cut
	cutWord    string
	cutDone    chan struct{}

	stalled chan struct{} // nil if nothing is held back; closed when the stall ends

	slowWord string        // empty if no answer is delayed
	slowBy   time.Duration // how long the answers to its statements are delayed

	unreachable bool // every connection is dropped, and new ones are too

	vanishWord string // empty if no host is to vanish
	vanishDone chan struct{}
	closed     chan struct{}

	closing sync.Once
}

// StartProxy starts a proxy in front of the server of a connection string, and returns the connection string that leads
// through it. The proxy remembers on which connections the client has said one of the words.
func StartProxy(dsn string, words ...string) (*Proxy, string, error) {
	server, u, err := splitUpstream(dsn)
	if err != nil {
		return nil, "", err
	}
	p := &Proxy{server: server, words: words, conns: map[*proxyConn]struct{}{}, statements: map[string][]byte{}, closed: make(chan struct{})}
	if p.listener, err = Listen(); err != nil {
		return nil, "", fmt.Errorf("starting a proxy: %w", err)
	}
	u.Host = p.listener.Addr().String()
	p.running.Go(p.accept)
	return p, u.String(), nil
}

// CutNext drops the next connection that commits and on which the client has ever said the word. With [CutStatement]
// and [CutAnswer] it drops the next connection that runs a prepared statement with the word in it. The channel is
// closed when that has happened.
func (p *Proxy) CutNext(where Cut, word string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.cutWord, p.cutDone = where, word, make(chan struct{})
	return p.cutDone
}

// VanishNext lets the whole host vanish as soon as a connection on which the client has ever said the word is inside a
// transaction. From then on nothing is forwarded in either direction on any connection, and the server is not told that
// the client is gone. The channel is closed when that has happened.
func (p *Proxy) VanishNext(word string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.vanishWord, p.vanishDone = word, make(chan struct{})
	return p.vanishDone
}

// SlowAnswers delays each answer to a prepared statement with the word in it, which is one of the proxy's words. Other
// connections are not delayed.
func (p *Proxy) SlowAnswers(word string, by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slowWord, p.slowBy = word, by
}

// vanished reports whether the host is gone.
func (p *Proxy) vanished() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.vanishDone == nil {
		return false
	}
	select {
	case <-p.vanishDone:
		return true
	default:
		return false
	}
}

// inTransaction is called when a connection is inside a transaction, after the server's answer was read and before it
// is forwarded.
func (p *Proxy) inTransaction(c *proxyConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.vanishWord != "" && c.clientWords[p.vanishWord] {
		p.vanishWord = ""
		close(p.vanishDone)
	}
}

// CancelCut takes back the request of [Proxy.CutNext], unless the cut has happened already.
func (p *Proxy) CancelCut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = ""
}

// Silence makes all present connections silent: what either end sends is read and dropped, no connection is reset, and
// no answer comes. New connections work. It returns how many connections went silent.
func (p *Proxy) Silence() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for c := range p.conns {
		if !c.silent.Swap(true) {
			n++
		}
	}
	return n
}

// SetReachable says whether the server can be reached. If not, the proxy drops all connections, and new ones as they are made.
func (p *Proxy) SetReachable(reachable bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unreachable = !reachable
	if p.unreachable {
		for c := range p.conns {
			c.drop()
		}
	}
}

// Stall delays the bytes of both directions on all connections for the given time, and forwards them afterwards.
func (p *Proxy) Stall(length time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled != nil {
		return
	}
	ended := make(chan struct{})
	p.stalled = ended
	time.AfterFunc(length, func() {
		p.mu.Lock()
		p.stalled = nil
		p.mu.Unlock()
		close(ended)
	})
}

// waitForStall returns when nothing is held back.
func (p *Proxy) waitForStall() {
	p.mu.Lock()
	stalled := p.stalled
	p.mu.Unlock()
	if stalled == nil {
		return
	}
	select {
	case <-stalled:
	case <-p.closed:
	}
}

// CarriesPort reports whether the server sees a connection of this proxy at the port.
func (p *Proxy) CarriesPort(port int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if address, ok := c.server.LocalAddr().(*net.TCPAddr); ok && address.Port == port {
			return true
		}
	}
	return false
}

// Close drops all connections and returns when they are gone.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.closing.Do(func() { close(p.closed) })
	p.mu.Lock()
	for c := range p.conns {
		c.drop()
	}
	p.mu.Unlock()
	p.running.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := p.server.dial()
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &proxyConn{proxy: p, client: client, server: server, clientWords: map[string]bool{}}
		p.mu.Lock()
		p.conns[c] = struct{}{}
		if p.unreachable {
			c.drop()
		}
		p.mu.Unlock()
		p.running.Go(func() { c.copyUntil(server, client, c.inspectClient); c.drop() })
		p.running.Go(func() {
			c.copyUntil(client, server, c.inspectServer)
			c.drop()
			p.mu.Lock()
			delete(p.conns, c)
			p.mu.Unlock()
		})
	}
}

// claimCut reports whether this connection is the one to be cut; it reports true only once.
func (p *Proxy) claimCut(c *proxyConn, where Cut) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut != where || !c.clientWords[p.cutWord] {
		return false
	}
	p.markCut()
	return true
}

// markCut records that a connection was cut. The caller must have locked p.mu.
func (p *Proxy) markCut() {
	p.cut = ""
	close(p.cutDone)
}

// proxyConn is one connection through the proxy.
type proxyConn struct {
	proxy          *Proxy
	client, server net.Conn

	silent atomic.Bool

	lastBytes       []byte          // the end of what the client said, since a word may be torn between two reads
	commitStatement []byte          // the name of the statement that the client has prepared for COMMIT
	clientWords     map[string]bool // which of the proxy's words it has said; under the proxy's lock
	runningWord     string          // the word in the running statement; under the proxy's lock
}

func (c *proxyConn) drop() { _, _ = c.client.Close(), c.server.Close() }

// copyUntil copies until an end is closed, or until inspect returns true.
func (c *proxyConn) copyUntil(to io.Writer, from io.Reader, inspect func([]byte) bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if c.silent.Load() {
			if err != nil {
				return
			}
			continue
		}
		if n > 0 {
			c.proxy.waitForStall()
		}
		if n > 0 && inspect(buffer[:n]) {
			return
		}
		if c.proxy.vanished() {
			<-c.proxy.closed // neither end learns that the other is gone
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// inspectClient looks at what the client sends. A COMMIT comes as a query, or as a prepared statement that is run by
// its name.
func (c *proxyConn) inspectClient(part []byte) (cut bool) {
	seen := append(c.lastBytes, part...) //nolint:gocritic // last is replaced below
	c.proxy.mu.Lock()
	for _, word := range c.proxy.words {
		if bytes.Contains(seen, []byte(word)) {
			c.clientWords[word] = true
		}
	}
	c.rememberStatements(seen)
	if c.noteRunningStatement(part); c.runningWord != "" && c.runningWord == c.proxy.cutWord && c.proxy.cut == CutStatement {
		c.proxy.markCut()
		c.proxy.mu.Unlock()
		return true
	}
	c.proxy.mu.Unlock()
	cut = bytes.Contains(seen, []byte("commit\x00")) || len(c.commitStatement) > 0 && bytes.Contains(part, c.commitStatement)
	if at := bytes.Index(seen, []byte("\x00COMMIT\x00")); at >= 0 {
		cut = true
		// Before it is the Parse message: its type, four bytes of length, of which only the last is not zero, and the
		// name.
		if name := bytes.LastIndexByte(seen[:at], 0) + 2; name > 1 && name < at {
			c.commitStatement = append([]byte{0}, append(bytes.Clone(seen[name:at]), 0)...)
		}
	}
	c.lastBytes = bytes.Clone(seen[max(0, len(seen)-128):])
	return cut && c.proxy.claimCut(c, CutBefore)
}

// rememberStatements remembers the names of the prepared statements that contain one of the words. pgx makes the name
// from the statement's hash, so it is the same on every connection. The caller must have locked the proxy's mu.
func (c *proxyConn) rememberStatements(seen []byte) {
	for _, word := range c.proxy.words {
		at := bytes.Index(seen, []byte(word))
		if at < 0 || c.proxy.statements[word] != nil {
			continue
		}
		from := bytes.LastIndex(seen[:at], []byte("stmtcache_"))
		if from < 0 {
			continue
		}
		if end := bytes.IndexByte(seen[from:at], 0); end > 0 {
			c.proxy.statements[word] = bytes.Clone(seen[from : from+end])
		}
	}
}

// noteRunningStatement records that the client runs one of the statements. A Bind message contains the name of the
// portal, which is empty, and the name of the statement. The caller must have locked the proxy's mu.
func (c *proxyConn) noteRunningStatement(part []byte) {
	for word, name := range c.proxy.statements {
		if bytes.Contains(part, append(append([]byte{0}, name...), 0)) {
			c.runningWord = word
		}
	}
}

// inspectServer looks at what the server sends: the answer to a statement, a CommandComplete with the tag COMMIT, or at
// the end a ReadyForQuery inside a transaction.
func (c *proxyConn) inspectServer(part []byte) (cut bool) {
	if bytes.HasSuffix(part, []byte("Z\x00\x00\x00\x05T")) {
		c.proxy.inTransaction(c)
	}
	c.proxy.mu.Lock()
	ran := c.runningWord
	c.runningWord = ""
	if ran != "" && ran == c.proxy.cutWord && c.proxy.cut == CutAnswer {
		c.proxy.markCut()
		c.proxy.mu.Unlock()
		return true
	}
	var slow time.Duration
	if ran != "" && ran == c.proxy.slowWord {
		slow = c.proxy.slowBy
	}
	c.proxy.mu.Unlock()
	if slow > 0 {
		select {
		case <-c.proxy.closed:
		case <-time.After(slow):
		}
	}
	return bytes.Contains(part, []byte("C\x00\x00\x00\x0bCOMMIT\x00")) && c.proxy.claimCut(c, CutAfter)
}
