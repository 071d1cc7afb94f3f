package session

import (
	"errors"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// setUserTimeout has the kernel give up a connection whose other end acknowledges
// nothing.
func setUserTimeout(network, _ string, raw syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var set error
	err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
	})
	return errors.Join(err, set)
}
