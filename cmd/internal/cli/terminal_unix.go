//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// isTerminal reports whether f is one, where somebody can be asked.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// terminalWidth is the number of columns of the terminal that f is, or 0.
func terminalWidth(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// lockFile takes the lock of an open file, which ends with the file; false if another one holds it.
func lockFile(f *os.File) bool { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }
