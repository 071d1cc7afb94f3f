package cli

import (
	"context"
	"os"
)

// onKey calls do when the user presses the key, until the context ends. It returns a function that
// restores the terminal. It returns false and reads nothing if stdin is not a terminal or if the
// process runs in the background.
func (s *shell) onKey(ctx context.Context, key byte, do func()) (restore func(), ok bool) {
	in, ok := s.in.(*os.File)
	if !ok || !isTerminal(in) {
		return func() {}, false
	}
	restore, ok = readKeys(in)
	if !ok {
		return func() {}, false
	}
	go func() {
		pressed := make([]byte, 1)
		for {
			if n, err := in.Read(pressed); err != nil || ctx.Err() != nil {
				return // the terminal is gone, or the process ends
			} else if n == 1 && pressed[0] == key {
				do()
			}
		}
	}()
	return restore, true
}
