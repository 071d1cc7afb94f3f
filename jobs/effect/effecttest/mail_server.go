package effecttest

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// MailScript says how a mail server answers at each stage: "greeting", "EHLO", "STARTTLS", "AUTH", "MAIL",
// "RCPT", "DATA", "message" (in the middle of it) and "dot". A stage that is missing succeeds. "drop" closes
// the connection, "reset" does so with an RST, "stall" leaves it open and sends nothing more, "half" ends in
// the middle of its answer, "slow" sends an endless answer slowly, "endless" sends one fast, "echo" refuses
// and repeats what the client sent. Any other text is sent unchanged.
type MailScript map[string]string

// MailServer is a mail server that keeps what it accepted.
type MailServer struct {
	Address string

	tb     testing.TB
	script MailScript
	tls    *tls.Config
	secure bool
	mu     sync.Mutex
	got    []Message
	sent   []string
	said   []string
}

// Message is a message that a server has accepted.
type Message struct {
	From, To, Data string
}

// NewMailServer starts a server on the loopback interface. It ends with the test. With a certificate it
// offers STARTTLS or, if secure, uses TLS from the first byte.
func NewMailServer(tb testing.TB, script MailScript, config *tls.Config, secure bool) *MailServer {
	tb.Helper()
	s := &MailServer{tb: tb, script: script, tls: config, secure: secure}
	s.Address = listen(tb, func(conn net.Conn) {
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		s.serve(conn)
	})
	return s
}

// Got returns the messages that were accepted.
func (s *MailServer) Got() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Message(nil), s.got...)
}

// Sent returns the messages that were sent completely, including those that were refused.
func (s *MailServer) Sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.sent...)
}

// Said returns every line of every client.
func (s *MailServer) Said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.said...)
}

// answer reports whether the conversation continues.
func (s *MailServer) answer(conn net.Conn, stage, well string) bool {
	say, ok := s.script[stage]
	if !ok {
		say = well
	}
	switch say {
	case "drop":
		return false
	case "reset":
		raw := conn
		if secured, ok := conn.(*tls.Conn); ok {
			raw = secured.NetConn()
		}
		if tcp, ok := raw.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
			_ = tcp.Close()
		}
		return false
	case "stall":
		_, _ = io.Copy(io.Discard, conn)
		return false
	case "half":
		_, _ = io.WriteString(conn, well[:2])
		return false
	case "slow":
		dropByDrop(well[:3]+"-", "")(conn, Request{})
		return false
	case "endless":
		pour(s.tb, conn, well[:3]+"-", "x")
		return false
	case "endless lines":
		pour(s.tb, conn, "", well[:3]+"-x\r\n")
		return false
	case "echo":
		said := s.Said()
		say = "535 not with " + said[len(said)-1]
	case "":
		return true
	}
	_, err := io.WriteString(conn, say+"\r\n")
	return err == nil
}

func (s *MailServer) serve(conn net.Conn) {
	secured := s.secure
	if secured {
		conn = tls.Server(conn, s.tls)
	}
	lines := bufio.NewReader(conn)
	if !s.answer(conn, "greeting", "220 sink ESMTP") {
		return
	}
	var m Message
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		s.mu.Lock()
		s.said = append(s.said, line)
		s.mu.Unlock()
		verb, rest, _ := strings.Cut(line, " ")
		stage, well := strings.ToUpper(verb), "250 OK"
		switch stage {
		case "EHLO":
			well = "250-sink\r\n250-AUTH PLAIN LOGIN\r\n250 SIZE"
			if s.tls != nil && !secured {
				well = "250-sink\r\n250 STARTTLS"
			}
		case "STARTTLS":
			well = "220 go on"
		case "AUTH":
			well = "235 welcome"
		case "MAIL":
			m.From = rest
		case "RCPT":
			m.To = rest
		case "DATA":
			well = "354 go on"
		case "QUIT":
			well = "221 bye"
		}
		if !s.answer(conn, stage, well) {
			return
		}
		switch stage {
		case "STARTTLS":
			conn, secured = tls.Server(conn, s.tls), true
			lines = bufio.NewReader(conn)
		case "QUIT":
			return
		case "DATA":
			if strings.HasPrefix(s.script["DATA"], "4") || strings.HasPrefix(s.script["DATA"], "5") {
				continue
			}
			if !s.message(conn, lines, &m) {
				return
			}
		}
	}
}

func (s *MailServer) message(conn net.Conn, lines *bufio.Reader, m *Message) bool {
	if _, cut := s.script["message"]; cut {
		_, _ = lines.ReadString('\n')
		return s.answer(conn, "message", "")
	}
	var data strings.Builder
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return false
		}
		if line == ".\r\n" {
			break
		}
		data.WriteString(strings.TrimPrefix(line, "."))
	}
	m.Data = data.String()
	s.mu.Lock()
	s.sent = append(s.sent, m.Data)
	if say := s.script["dot"]; say == "" || strings.HasPrefix(say, "2") {
		s.got = append(s.got, *m)
	}
	s.mu.Unlock()
	return s.answer(conn, "dot", "250 queued")
}
