//go:build !unix

package app

// openFiles returns how many files this process may have open, or 0 if there is no limit.
func openFiles() int { return 0 }
