package lists

import (
	"net"
	"sync"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// Message is what identifies a message at the mail server.
type Message struct{ ID, Recipient string }

// mailServer accepts every message and counts it.
type mailServer struct {
	mu    sync.Mutex
	taken map[Message]int
	all   int
}

// serve serves one connection.
func (s *mailServer) serve(conn net.Conn) {
	rig.ServeMail(conn, func(m rig.Mail) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken[Message{ID: m.ID, Recipient: m.Recipient}]++
		s.all++
		return true
	})
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
