package receiver

import (
	"errors"
	"log/slog"
	"net/http"
	"time"
)

// ServerConfig configures the public HTTP server. Handler and Logger are
// required; a zero duration takes its default.
type ServerConfig struct {
	Handler http.Handler
	Logger  *slog.Logger

	// Connections bounds the connections of the server: serve a listener of
	// [Connections.Listen]. nil bounds nothing.
	Connections *Connections

	// ReadHeaderTimeout is how long a sender may take for the headers. It defaults to 5
	// s. The body has a separate deadline ([BodyLimits.BodyTimeout]).
	ReadHeaderTimeout time.Duration

	// WriteTimeout is from the headers' end to the answer's. It must be longer than
	// the body's and the gate's deadlines together. It defaults to 60 s.
	WriteTimeout time.Duration

	// IdleTimeout is how long a connection may wait for its next request. It
	// defaults to 75 s.
	IdleTimeout time.Duration

	// MaxHeaderBytes defaults to 16 KiB.
	MaxHeaderBytes int
}

// NewServer makes the HTTP server for the public listener, with every limit set.
func NewServer(cfg ServerConfig) (*http.Server, error) {
	var errs []error
	if cfg.Handler == nil {
		errs = append(errs, errors.New("public server: Handler is required"))
	}
	if cfg.Logger == nil {
		errs = append(errs, errors.New("public server: Logger is required"))
	}
	if cfg.ReadHeaderTimeout < 0 || cfg.WriteTimeout < 0 || cfg.IdleTimeout < 0 || cfg.MaxHeaderBytes < 0 {
		errs = append(errs, errors.New("public server: limits must not be negative"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	server := &http.Server{
		Handler:           cfg.Handler,
		ReadHeaderTimeout: cfg.ReadHeaderTimeout,
		WriteTimeout:      cfg.WriteTimeout,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    cfg.MaxHeaderBytes,
		// What the server says about broken connections is not worth a line each.
		ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	if server.ReadHeaderTimeout == 0 {
		server.ReadHeaderTimeout = 5 * time.Second
	}
	if server.WriteTimeout == 0 {
		server.WriteTimeout = time.Minute
	}
	if server.IdleTimeout == 0 {
		server.IdleTimeout = 75 * time.Second
	}
	if server.MaxHeaderBytes == 0 {
		server.MaxHeaderBytes = 16 << 10
	}
	if cfg.Connections != nil {
		cfg.Connections.Watch(server)
	}
	// One request at a time comes by a connection: HTTP/2 is for the proxy in front, and
	// would let one connection carry many bodies.
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	return server, nil
}
