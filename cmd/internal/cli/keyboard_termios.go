//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package cli

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// readKeys makes the terminal deliver each key at once and not show it. Ctrl-C still works. It
// returns false if another process has the terminal, because reading would then stop this one.
func readKeys(terminal *os.File) (restore func(), ok bool) {
	fd := int(terminal.Fd())
	if group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil || group != unix.Getpgrp() {
		return nil, false
	}
	before, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, false
	}
	// If the shell moves the process to the background later, a read fails instead of stopping it.
	signal.Ignore(syscall.SIGTTIN, syscall.SIGTTOU)
	keys := *before
	keys.Lflag &^= unix.ICANON | unix.ECHO
	keys.Cc[unix.VMIN], keys.Cc[unix.VTIME] = 1, 0
	if unix.IoctlSetTermios(fd, setTermios, &keys) != nil {
		return nil, false
	}
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, before) }, true
}
