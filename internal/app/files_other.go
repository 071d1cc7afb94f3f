//go:build !unix

package app

// openFiles is how many files this process may have open; 0 if there is no limit.
func openFiles() int { return 0 }
