package rig

import (
	"net/http"
	"time"
)

// Target is an HTTP server that effects are sent to.
type Target struct {
	// Address is where it listens, on 127.0.0.1.
	Address string

	server *http.Server
}

// StartTarget starts a target that answers with a handler.
func StartTarget(handler http.Handler) (*Target, error) {
	listener, err := Listen()
	if err != nil {
		return nil, err
	}
	// The time is longer than any campaign needs: a connection that is opened in advance and used late must not be
	// closed just then, since its request would fail.
	t := &Target{Address: listener.Addr().String(), server: &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Minute}}
	go func() { _ = t.server.Serve(listener) }() // ends when it is closed
	return t, nil
}

// Close closes the target and all its connections.
func (t *Target) Close() error { return t.server.Close() }
