//go:build unix

package rig

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// ownGroup makes a child start in a new process group.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Pause sends SIGSTOP and returns when no thread of the process runs any more. On systems other than Linux, where that
// cannot be asked, it returns when the signal was sent.
func (p *Process) Pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("pausing process %d: %w", p.PID(), err)
	}
	for runtime.GOOS == "linux" {
		paths, err := filepath.Glob("/proc/" + strconv.Itoa(p.PID()) + "/task/*/stat")
		if err != nil {
			return fmt.Errorf("pausing process %d: %w", p.PID(), err)
		}
		stopped := 0
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				continue // the thread has ended
			}
			if _, after, ok := bytes.Cut(content, []byte(") T")); ok && len(after) > 0 {
				stopped++
			}
		}
		if stopped == len(paths) && stopped > 0 || !p.Running() {
			return nil
		}
		<-time.After(time.Millisecond)
	}
	return nil
}

// Continue continues a process that was paused.
func (p *Process) Continue() error {
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("letting process %d go on: %w", p.PID(), err)
	}
	return nil
}
