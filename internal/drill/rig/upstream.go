package rig

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// upstream is the server to which a proxy connects.
type upstream struct {
	network, address string

	// tls is nil for a connection without TLS. If plain is true, a server that has no TLS is accepted all the same.
	tls   *tls.Config
	plain bool
}

// upstreamSettings are the settings of a connection string that say how the server is reached. The proxy uses them. The
// client that connects to the proxy must not.
var upstreamSettings = []string{
	"host", "port", "sslrootcert", "sslcert", "sslkey", "sslpassword", "sslsni", "sslnegotiation", "channel_binding", "passfile", "service", "servicefile",
}

// splitUpstream splits a connection string into the server and the URL that a client of the proxy uses. The caller sets
// the host of the URL.
func splitUpstream(dsn string) (upstream, *url.URL, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return upstream{}, nil, errors.New("starting a proxy: the connection string is no URL")
	}
	cfg, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return upstream{}, nil, errors.New("starting a proxy: the connection string cannot be read") // the cause quotes it
	}
	server := upstream{tls: cfg.TLSConfig, plain: len(cfg.Fallbacks) > 0 && cfg.Fallbacks[0].TLSConfig == nil}
	server.network, server.address = pgconn.NetworkAddress(cfg.Host, cfg.Port)
	u.User = url.User(cfg.User)
	if cfg.Password != "" {
		u.User = url.UserPassword(cfg.User, cfg.Password)
	}
	query := u.Query()
	for _, name := range upstreamSettings {
		query.Del(name)
	}
	query.Set("sslmode", "disable") // the proxy must be able to read
	u.RawQuery = query.Encode()
	return server, u, nil
}

// sslRequest asks a PostgreSQL server for TLS. The server answers with one byte.
var sslRequest = []byte{0, 0, 0, 8, 4, 210, 22, 47}

// dial connects to the server, with TLS if the connection string asks for it.
func (u upstream) dial() (net.Conn, error) {
	conn, err := net.DialTimeout(u.network, u.address, 10*time.Second) //nolint:noctx // it has its own limit
	if err != nil {
		return nil, fmt.Errorf("connecting to the server behind a proxy: %w", err)
	}
	if u.tls == nil {
		return conn, nil
	}
	encrypted, err := u.encrypt(conn)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting TLS with the server behind a proxy: %w", err), conn.Close())
	}
	return encrypted, nil
}

func (u upstream) encrypt(conn net.Conn) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	if _, err := conn.Write(sslRequest); err != nil {
		return nil, err
	}
	var answer [1]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	switch {
	case answer[0] == 'S':
		encrypted := tls.Client(conn, u.tls)
		return encrypted, encrypted.HandshakeContext(ctx)
	case u.plain:
		return conn, nil
	}
	return nil, errors.New("the server refuses TLS")
}
