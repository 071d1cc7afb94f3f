// Package logtest records what a test logs.
package logtest

import (
	"strings"
	"sync"
)

// Buffer records everything written to it. Its zero value is empty and ready to use. It is safe for
// concurrent use, so a test can read the log of code that is still running.
type Buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write appends p. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns everything written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
