package suppression

import (
	"errors"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/inbox"
)

// Reason is why an address is suppressed: one of a closed set. Stored: never change.
type Reason string

// The reasons. Stored: never change.
const (
	// Bounce means that a mail server refused a message to the address for good.
	Bounce Reason = "bounce"
	// Complaint means that the recipient reported a message as spam.
	Complaint Reason = "complaint"
	// Unsubscribe means that the recipient asked for no more messages.
	Unsubscribe Reason = "unsubscribe"
	// Manual means that an operator suppressed the address for a reason of their own.
	Manual Reason = "manual"
)

// Reasons are all of them.
func Reasons() []Reason { return []Reason{Bounce, Complaint, Unsubscribe, Manual} }

// ParseReason reads a reason.
func ParseReason(s string) (Reason, error) {
	for _, r := range Reasons() {
		if string(r) == s {
			return r, nil
		}
	}
	return "", errors.New("not a reason; known are bounce, complaint, unsubscribe, manual")
}

// Entry is an address to suppress.
type Entry struct {
	// Address is in any form that [Normalize] takes.
	Address string
	// Target limits the entry to messages of the target with this name; empty is every target.
	Target string
	Reason Reason
	// Event is the event that reported it; zero if a person did.
	Event inbox.ID
	// Expires is when the address may be written to again; zero is never.
	Expires time.Time
}

// Row is a stored entry.
type Row struct {
	ID inbox.ID `json:"id"`
	// Address is the address in normal form; empty if only its digest is kept, or if it cannot be opened.
	Address string `json:"address,omitempty" shows:"address"`
	// Digest is the beginning of the digest, to distinguish entries without an address.
	Digest    string     `json:"digest,omitempty" shows:"hash"`
	Target    string     `json:"target,omitempty"`
	Reason    Reason     `json:"reason"`
	Event     *inbox.ID  `json:"source_event,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	// MissingKey is the sealing key that this process lacks to open the address; 0 if it lacks none.
	MissingKey int32 `json:"missing_key,omitempty"`
}

// ErrEntry is in the error of an entry that can never be stored: no address, no known reason. It quotes neither.
var ErrEntry = errors.New("the entry cannot be stored")

func (e *Entry) check(normal *string) (err error) {
	if *normal, err = Normalize(e.Address); err != nil {
		return fmt.Errorf("%w: %w", ErrEntry, err)
	}
	if _, err := ParseReason(string(e.Reason)); err != nil {
		return fmt.Errorf("%w: %w", ErrEntry, err)
	}
	if len(e.Target) > 63 {
		return fmt.Errorf("%w: the name of a target has at most 63 bytes, not %d", ErrEntry, len(e.Target))
	}
	return nil
}
