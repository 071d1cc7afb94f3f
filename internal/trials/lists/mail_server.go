package lists

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/textproto"
	"strings"
	"sync"
)

// Message is what identifies a message at the mail server.
type Message struct{ ID, Recipient string }

// mailServer accepts every message and counts it.
type mailServer struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	taken map[Message]int
	all   int
}

func startMailServer() (*mailServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed at the end
	if err != nil {
		return nil, fmt.Errorf("starting a mail server: %w", err)
	}
	s := &mailServer{listener: listener, taken: map[Message]int{}}
	s.wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() { s.serve(conn) })
		}
	})
	return s, nil
}

func (s *mailServer) address() string { return s.listener.Addr().String() }

// close waits until all conversations have ended: their clients are gone by then.
func (s *mailServer) close() error {
	err := s.listener.Close()
	s.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// serve speaks the part of SMTP that receiving a message needs.
func (s *mailServer) serve(conn net.Conn) {
	defer conn.Close()
	text := textproto.NewConn(conn)
	recipient := ""
	answer := "220 sink.example"
	for {
		if text.PrintfLine("%s", answer) != nil {
			return
		}
		line, err := text.ReadLine()
		if err != nil {
			return
		}
		verb, argument, _ := strings.Cut(line, " ")
		answer = "250 fine"
		switch strings.ToUpper(verb) {
		case "RCPT":
			_, argument, _ = strings.Cut(argument, "<")
			recipient, _, _ = strings.Cut(argument, ">")
		case "DATA":
			if text.PrintfLine("354 go on") != nil {
				return
			}
			content, err := text.ReadDotBytes()
			if err != nil {
				return
			}
			m, err := mail.ReadMessage(bytes.NewReader(content))
			if err != nil {
				return
			}
			s.take(Message{ID: m.Header.Get("Message-Id"), Recipient: recipient})
			answer = "250 taken"
		case "QUIT":
			_ = text.PrintfLine("221 bye")
			return
		}
	}
}

func (s *mailServer) take(m Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[m]++
	s.all++
}

// count is how many messages were taken so far.
func (s *mailServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// drain returns the messages since the last call.
func (s *mailServer) drain() map[Message]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.taken
	s.taken = map[Message]int{}
	return taken
}
