package devpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"syscall"
	"time"
)

// readyWord is what a keeper writes when its server accepts connections. Any other line is the
// reason why it does not.
const readyWord = "ready"

// held is a running server of a keeper: its own child, or a server whose keeper was killed.
type held interface {
	Done() <-chan struct{}
	stop(ctx context.Context) error
}

// Keep runs a keeper. It starts the server of a shared cluster, or takes over the running one,
// reports that on ready, and stops the server when ctx ends or no process needs it any more. Only
// the command in [Shared.Keeper] calls it.
func (c Shared) Keep(ctx context.Context, ready io.WriteCloser) error {
	f, err := tryLock(c.path("keeper.lock"))
	if err != nil {
		return errors.Join(err, say(ready, "another keeper holds "+c.Config.Dir))
	}
	defer f.Close()
	if err := errors.Join(f.Truncate(0), write(f, strconv.Itoa(syscall.Getpid()))); err != nil {
		return errors.Join(err, say(ready, err.Error()))
	}
	server, err := c.hold(ctx)
	if err != nil {
		return errors.Join(err, say(ready, err.Error()))
	}
	if err := say(ready, readyWord); err != nil {
		return errors.Join(err, stopWithin(server))
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-server.Done():
			return nil
		case <-ctx.Done(): // the caller of Stop holds the lock
			return stopWithin(server)
		case <-tick.C:
			if ended, err := c.stopUnused(ctx, server); ended || err != nil {
				return err
			}
		}
	}
}

// hold takes over the running server, or starts one.
func (c Shared) hold(ctx context.Context) (held, error) {
	s := &Server{cfg: c.Config}
	if pm, running := runningOn(ctx, s.data()); running {
		return adopt(ctx, s.data(), pm), nil
	}
	return Start(ctx, c.Config)
}

// stopUnused stops the server if no process needs it. It checks again under the lock, because new
// users register under the lock.
func (c Shared) stopUnused(ctx context.Context, server held) (bool, error) {
	if c.used(ctx) {
		return false, nil
	}
	if unlock, err := lock(ctx, c.path("lock")); err == nil {
		defer unlock()
	}
	if c.used(ctx) {
		return false, nil
	}
	return true, stopWithin(server)
}

// stopWithin stops a server and allows it the time that the shutdown checkpoint of a development
// cluster can need.
func stopWithin(server held) error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	return server.stop(ctx)
}

func (s *Server) stop(ctx context.Context) error { return s.Stop(ctx) }

// orphan is a server whose keeper was killed.
type orphan struct {
	pid  int
	done chan struct{}
}

// adopt watches a server that is not a child of this process.
func adopt(ctx context.Context, data string, pm postmaster) *orphan {
	o := &orphan{pid: pm.pid, done: make(chan struct{})}
	ctx = context.WithoutCancel(ctx)
	go func() {
		defer close(o.done)
		for {
			if now, running := runningOn(ctx, data); !running || now.pid != o.pid {
				return
			}
			_ = pause(ctx, 200*time.Millisecond) // ctx never ends, so pause never fails
		}
	}()
	return o
}

func (o *orphan) Done() <-chan struct{} { return o.done }

func (o *orphan) stop(ctx context.Context) error {
	if err := syscall.Kill(o.pid, syscall.SIGINT); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stopping PostgreSQL: %w", err)
	}
	select {
	case <-o.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopping PostgreSQL: %w", ctx.Err())
	}
}

// say sends one line to the process that started the keeper.
func say(ready io.WriteCloser, word string) error {
	line := []byte(word)
	for i, b := range line {
		if b == '\n' {
			line[i] = ' '
		}
	}
	if err := errors.Join(write(ready, string(line)+"\n"), ready.Close()); err != nil {
		return fmt.Errorf("reporting to whoever started the keeper: %w", err)
	}
	return nil
}

func write(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}
