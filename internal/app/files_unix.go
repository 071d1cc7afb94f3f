//go:build unix

package app

import (
	"math"
	"syscall"
)

// openFiles returns how many files this process may have open, or 0 if there is no limit.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) > math.MaxInt32 { //nolint:unconvert // its type differs between systems
		return 0
	}
	return int(limit.Cur)
}
