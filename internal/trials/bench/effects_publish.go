package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// startStream starts a NATS server in this process with a stream in memory, as the target over HTTP is in it too, and
// returns the configuration of a target that publishes to it.
func startStream(ctx context.Context, dir string) (target string, err error) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: filepath.Join(dir, "jetstream"), NoLog: true, NoSigs: true})
	if err != nil {
		return "", fmt.Errorf("starting NATS: %w", err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		return "", errors.New("NATS does not start")
	}
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		return "", fmt.Errorf("connecting to NATS: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err == nil {
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "bench", Subjects: []string{"bench"}, Storage: jetstream.MemoryStorage})
	}
	if err != nil {
		return "", fmt.Errorf("making a stream: %w", err)
	}
	return fmt.Sprintf(`{ kind: publish, url: "%s", stream: bench, subject: bench }`, s.ClientURL()), nil
}
