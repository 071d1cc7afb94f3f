package read

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// tagOf names a state in a few characters.
func tagOf(parts ...any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
	return hex.EncodeToString(sum[:8])
}

// Tag names the state of the effect that a decision about it is made on. It changes with everything that a person should
// look at again before they decide.
func (d *EffectDetail) Tag() string { return tagOf(d.ID, d.State, d.Version, d.Revision, d.Attempts) }

// Tag names the state of the event that a decision about it is made on: whether it is usable and whether its content is
// kept.
func (e *EventDetail) Tag() string {
	return tagOf("event", e.ID, e.Admission, e.AdmissionDetail, e.Class, e.BodyKept)
}

// Tag names the state of the conflict that a decision about it is made on: as which event it was admitted. The payload of a
// conflict never changes.
func (c *ConflictRow) Tag() string {
	admitted := ""
	if c.AdmittedAs != nil {
		admitted = c.AdmittedAs.String()
	}
	return tagOf("conflict", c.ID, admitted, c.DismissedAt != nil)
}

// Tag names the state of the stream that a decision about it is made on: what it waits for, and the effect that blocks it.
func (d *StreamDetail) Tag() string {
	blocker, revision := "", 0
	if d.BlockedBy != nil {
		blocker = d.BlockedBy.String()
	}
	if d.BlockedByEffect != nil {
		revision = d.BlockedByEffect.Revision
	}
	return tagOf(d.ID, d.Applied, blocker, revision, d.MissingFrom, d.MissingTo, d.Undecided)
}
