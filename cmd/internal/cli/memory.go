package cli

import (
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit" // reads the limit of nested control groups, of both versions
)

// Bodies are garbage soon after they arrive, so a garbage collector that runs less often increases
// the throughput by a tenth. The limit keeps the resident size of a busy receiver below 256 MiB.
const (
	gcPercent   = 400
	memoryLimit = 208 << 20
)

// containerShare is the part of a container's memory that the limit leaves to Go, in percent. The
// rest is for the program itself and for the kernel's buffers of its connections.
const containerShare = 80

// tuneMemory sets the garbage collector's parameters, unless the environment does.
func tuneMemory(s *shell) {
	if s.env("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if s.env("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(goLimit(memlimit.FromCgroup()))
	}
}

// goLimit returns the limit of Go's memory in bytes for the limit of the container. An error means
// that there is none.
func goLimit(container uint64, err error) int64 {
	if err != nil {
		return memoryLimit
	}
	return int64(container / 100 * containerShare)
}
