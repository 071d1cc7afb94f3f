package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Process is a child process.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has been reaped
	err  error         // how it ended; read after done
}

// Start starts a program and does not wait for it. env is added to an environment of only PATH, HOME and TMPDIR, so
// that the caller's settings cannot influence the trial. The program's output is appended to the file log.
func Start(log string, env []string, program string, args ...string) (*Process, error) {
	return start(log, env, false, program, args)
}

// start is [Start]. If apart is true, the program starts in a new process group.
func start(log string, env []string, apart bool, program string, args []string) (*Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", program, err)
	}
	defer out.Close()
	// The child outlives every context: it is ended by Kill or Stop.
	cmd := exec.Command(program, args...) //nolint:gosec,noctx // a program that the caller built
	cmd.Env = Environment(env)
	if apart {
		cmd.SysProcAttr = ownGroup()
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// Environment is the environment of every child: env, and nothing of the caller's but PATH, HOME and TMPDIR.
func Environment(env []string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir()}, env...)
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and been reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the process ended, once Done is closed.
func (p *Process) Err() error { return p.err }

// Running reports whether the process has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Kill sends SIGKILL and returns when the process has been reaped. It is no error if the process has ended already.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing process %d: %w", p.PID(), err)
	}
	<-p.done
	return nil
}

// Stop sends SIGTERM and waits. If the process still runs after the patience, Stop kills it and returns an error.
func (p *Process) Stop(patience time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping process %d: %w", p.PID(), err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
		return errors.Join(fmt.Errorf("stopping process %d: still running after %s", p.PID(), patience), p.Kill())
	}
}

// Ready waits until the URL answers 200. It fails if the process ends, with ErrEnded, or if ctx ends.
func (p *Process) Ready(ctx context.Context, url string) error {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("asking %s: %w", url, err)
		}
		if resp, err := client.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.done:
			return fmt.Errorf("waiting for %s: the process ended: %w", url, errors.Join(p.err, ErrEnded))
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", url, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// ErrEnded is wrapped by [Process.Ready] and [Process.Listening] when the process ended before.
var ErrEnded = errors.New("ended before it was ready")

// Listening waits until the address takes connections. It fails if the process ends, with ErrEnded, or if ctx ends.
func (p *Process) Listening(ctx context.Context, address string) error {
	var dialer net.Dialer
	for {
		if conn, err := dialer.DialContext(ctx, "tcp", address); err == nil {
			return conn.Close()
		}
		select {
		case <-p.done:
			return fmt.Errorf("waiting for %s: the process ended: %w", address, errors.Join(p.err, ErrEnded))
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", address, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}
