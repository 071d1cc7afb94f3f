//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package cli

import "os"

// readKeys always returns false on this platform: no key does anything.
func readKeys(*os.File) (restore func(), ok bool) { return nil, false }
