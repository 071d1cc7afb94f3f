package app

import (
	"cmp"
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox/buffer"
	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/config"
)

// bufferAskFor bounds a question to the servers of the buffer, and bufferReachFor a question with the connection before it.
const bufferAskFor, bufferReachFor = 2 * time.Second, 5 * time.Second

// BufferState returns the state of the buffer as this process sees it, or nil if there is no buffer or the process does not receive.
func (a *App) BufferState(ctx context.Context) *buffer.Status {
	b := a.buffered
	if b == nil {
		return nil
	}
	out := &buffer.Status{When: bufferMode(&a.settings.Buffer), Active: new(b.State().Buffering || a.waiting != nil)}
	if b.stream.Connected() {
		askBuffer(ctx, out, b.stream)
	} else if waiting, known := b.waiting(); known {
		out.Waiting = &waiting
	}
	return out
}

// ReadBuffer returns the state of a configuration's buffer for a command that asks without a server, or nil without a buffer.
func ReadBuffer(ctx context.Context, settings *config.Buffer) *buffer.Status {
	if !settings.On() {
		return nil
	}
	unknown := buffer.Status{When: bufferMode(settings)}
	stream, err := broker.NewStream(settings.StreamConfig())
	if err != nil {
		return &unknown
	}
	ctx, cancel := context.WithTimeout(ctx, bufferReachFor)
	defer cancel()
	asked := make(chan buffer.Status, 1)
	go func() {
		defer stream.Close()
		known := unknown
		askBuffer(ctx, &known, stream)
		asked <- known
	}()
	select {
	case known := <-asked:
		return &known
	case <-ctx.Done(): // servers that do not answer keep a connection waiting for longer
		return &unknown
	}
}

// askBuffer asks the servers what waits.
func askBuffer(ctx context.Context, b *buffer.Status, stream *broker.Stream) {
	ctx, cancel := context.WithTimeout(ctx, bufferAskFor)
	defer cancel()
	n, oldest, err := stream.Waiting(ctx)
	if b.Connected = stream.Connected(); err != nil {
		return
	}
	b.Waiting = new(int64(n))
	if n > 0 {
		b.OldestAt = &oldest
	}
}

func bufferMode(settings *config.Buffer) string {
	return string(cmp.Or(settings.Mode, config.BufferUnavailable))
}
