//go:build !unix

package cli

import "os"

// isTerminal is false where it cannot be asked: a decision then needs --yes.
func isTerminal(*os.File) bool { return false }

// terminalWidth is 0 where the size of a terminal cannot be asked: rows are not cut.
func terminalWidth(*os.File) int { return 0 }

// lockFile knows no locks here: a second `oncegate dev` needs an ONCEGATE_DEV_DIR of its own.
func lockFile(*os.File) bool { return true }
