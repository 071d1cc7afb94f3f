package rig

import (
	"errors"
	"net"
	"sync"
)

// Server is a server of any protocol.
type Server struct {
	// Address is where it listens, on 127.0.0.1.
	Address string

	listener net.Listener
	serving  sync.WaitGroup
}

// StartServer starts a server whose connections a function serves. The server closes each of them afterwards.
func StartServer(serve func(net.Conn)) (*Server, error) {
	listener, err := Listen()
	if err != nil {
		return nil, err
	}
	s := &Server{Address: listener.Addr().String(), listener: listener}
	s.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.serving.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	return s, nil
}

// Close takes no more connections, and returns when all have been served. The clients must be gone by then.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.serving.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil // it was closed before
	}
	return err
}
