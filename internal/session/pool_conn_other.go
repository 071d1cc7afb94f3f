//go:build !linux

package session

import "syscall"

// setUserTimeout does nothing: this system does not know the option, and its
// keepalives alone tell that the other end has vanished.
func setUserTimeout(string, string, syscall.RawConn) error { return nil }
