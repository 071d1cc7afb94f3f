package proxies

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// proxy is a program in front of the receivers.
type proxy struct {
	// shipped is the file in the checkout that is tried.
	shipped string

	// program and args start it in the foreground.
	program string
	args    func(p *places) []string

	// configure writes the configuration. replaced are the replacements of the shipped file.
	configure func(p *places, replaced ...replacement) error

	// reload makes the running proxy read its configuration again, as its package's systemd unit does.
	reload func(ctx context.Context, p *places, running *rig.Process) error

	// stop is the signal with which the package's systemd unit stops it.
	stop syscall.Signal
}

// proxiesByName are the proxies that the campaign knows.
func proxiesByName() map[string]*proxy {
	return map[string]*proxy{"nginx": nginx(), "caddy": caddy(), "haproxy": haproxy()}
}

// log is where the proxy writes.
func (p *places) log() string { return filepath.Join(p.dir, "front.log") }

// start starts the proxy and waits until it listens.
func (x *proxy) start(ctx context.Context, p *places) (*rig.Process, error) {
	running, err := rig.Start(p.log(), []string{"HOME=" + p.dir}, x.program, x.args(p)...)
	if err != nil {
		return nil, err
	}
	timed, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := running.Listening(timed, "127.0.0.1:"+p.front); err != nil {
		_ = running.Kill()
		return nil, fmt.Errorf("%w: %s", err, rig.TailFile(p.log()))
	}
	return running, nil
}

// end stops the proxy as its unit does, and waits.
func (x *proxy) end(running *rig.Process) error {
	if running.Running() {
		if err := syscall.Kill(running.PID(), x.stop); err != nil {
			return fmt.Errorf("stopping the proxy: %w", err)
		}
	}
	select {
	case <-running.Done():
		return nil
	case <-time.After(90 * time.Second):
		return fmt.Errorf("the proxy still runs after 90 s: %w", running.Kill())
	}
}

// signal returns a reload by a signal.
func signal(sig syscall.Signal) func(context.Context, *places, *rig.Process) error {
	return func(_ context.Context, _ *places, running *rig.Process) error {
		if err := syscall.Kill(running.PID(), sig); err != nil {
			return fmt.Errorf("reloading the proxy: %w", err)
		}
		return nil
	}
}
