package buffer

import "sync/atomic"

// counters are what a Buffer has counted.
type counters struct {
	buffered, failed, admitted atomic.Uint64
	lastError                  atomic.Pointer[string]
}

// State describes a buffer at one moment.
type State struct {
	// Buffering means that deliveries go to the stream because the gate does not work.
	Buffering bool

	// Buffered counts the deliveries that were published, Failed those that could not be, and Admitted those that the gate has
	// recorded or recognised afterwards. They count since the process started.
	Buffered, Failed, Admitted uint64

	// Error is why the last delivery could not be published. It is empty if it could, or if none had to be.
	Error string
}

// State returns the present state.
func (b *Buffer) State() State {
	out := State{
		Buffering: b.Resting(),
		Buffered:  b.buffered.Load(), Failed: b.failed.Load(), Admitted: b.admitted.Load(),
	}
	if text := b.lastError.Load(); text != nil {
		out.Error = *text
	}
	return out
}
