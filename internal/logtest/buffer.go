// Package logtest keeps what a test logs.
package logtest

import (
	"strings"
	"sync"
)

// Buffer keeps what is written to it. Its zero value is empty and ready. Several goroutines may use it at once, so that a test
// reads the log of what still runs.
type Buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write adds p. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns all that was written until now.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
