//go:build !unix

package cli

import "os"

// terminalWidth is 0 where the size of a terminal cannot be asked: rows are not cut.
func terminalWidth(*os.File) int { return 0 }
