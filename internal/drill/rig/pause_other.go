//go:build !unix

package rig

import (
	"errors"
	"syscall"
)

var errNoPause = errors.New("pausing a process: this system has no SIGSTOP")

func ownGroup() *syscall.SysProcAttr { return nil }

// Pause is not supported on this system.
func (p *Process) Pause() error { return errNoPause }

// Continue is not supported on this system.
func (p *Process) Continue() error { return errNoPause }
