//go:build !unix

package cli

import "os"

// isTerminal always returns false on this platform, so a decision needs --yes.
func isTerminal(*os.File) bool { return false }

// terminalWidth always returns 0 on this platform, so rows are not shortened.
func terminalWidth(*os.File) int { return 0 }

// lockFile does nothing on this platform. A second `oncegate dev` needs another ONCEGATE_DEV_DIR.
func lockFile(*os.File) bool { return true }
