package buffer

import (
	"fmt"
	"strings"
	"time"
)

// Status is what people see of a buffer.
type Status struct {
	// When says which deliveries go to the buffer: "unavailable" or "always".
	When string `json:"when"`

	// Connected means that the process or the command is connected to a server of the buffer.
	Connected bool `json:"connected"`

	// Active means that deliveries go to the buffer now because the gate does not record them. It is absent if a command asks
	// without a server.
	Active *bool `json:"active,omitempty"`

	// Waiting is how many deliveries are in the buffer that are not recorded yet. It is absent if the servers do not say.
	Waiting *int64 `json:"waiting,omitempty"`

	// OldestAt is when the oldest of them was buffered. It is absent if none waits, or if the servers do not say.
	OldestAt *time.Time `json:"oldest_at,omitempty"`
}

// Words describes the status in one line.
func (s *Status) Words(now time.Time) string {
	parts := []string{"when: " + s.When, "not connected"}
	if s.Connected {
		parts[1] = "connected"
	}
	switch {
	case s.Waiting == nil:
		parts = append(parts, "how many deliveries wait is unknown")
	case *s.Waiting == 0:
		parts = append(parts, "nothing waits")
	case s.OldestAt == nil:
		parts = append(parts, fmt.Sprintf("waiting: %d", *s.Waiting))
	default:
		parts = append(parts, fmt.Sprintf("waiting: %d, the oldest for %s", *s.Waiting, max(now.Sub(*s.OldestAt), 0).Round(time.Second)))
	}
	if s.Active != nil && *s.Active {
		parts = append(parts, "deliveries go to it now, because the gate does not record them")
	}
	return strings.Join(parts, "; ")
}
