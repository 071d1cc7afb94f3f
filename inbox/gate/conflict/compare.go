package conflict

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/internal/pgtext"
)

// The limits of the recorded differences of a conflict: the number of paths, and the bytes of each. The names of
// members come from outside.
const (
	maxPaths = 20
	maxPath  = 256
)

// The bytes of the first delivery, if they have not been pruned or erased.
const readFirst = `
SELECT coalesce(e.admission_detail, ''), e.canonical_sha256, e.body_offset, e.body_length, e.body_id, b.key_id, b.body
FROM inbox_event e LEFT JOIN inbox_body b ON b.class = e.class AND b.id = e.body_id
WHERE e.id = $1`

// difference says how a payload differs from the recorded one.
type difference struct {
	body  []byte
	sum   [sha256.Size]byte // of the canonical form, or of the bytes where there is none
	paths []string

	// original is the canonical form of the recorded payload, and gone says why it cannot be shown. They are set only
	// for operations.
	original []byte
	gone     inbox.OriginalGone
}

// compare compares a payload with the recorded one. It returns nil if they are the same, or if the recorded one is from
// the sender's list.
func (s *Settler) compare(ctx context.Context, p *Payload) (*difference, error) {
	source, event := p.Admission.Source, p.event()
	other := &difference{body: p.Admission.Body[event.Offset : event.Offset+event.Length], sum: p.SHA, paths: []string{}}
	var (
		detail          string
		canonical, body []byte
		offset, length  int
		bodyID          inbox.ID
		keyID           *int32
	)
	err := s.pool.QueryRow(ctx, readFirst, p.Recorded).Scan(&detail, &canonical, &offset, &length, &bodyID, &keyID, &body)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, errors.New("the event was removed while it was compared")
	case err != nil:
		return nil, err
	case detail == inbox.DetailReconciled:
		return nil, nil // the sender's list need not have the bytes of its delivery
	}
	comparison := source.Comparison(event.Type)
	if source.Strict && comparison.Recognize(s.secret, canonical, other.body) != nil {
		return nil, nil
	}
	if comparison.Canonical == nil {
		other.gone = inbox.OriginalNotJSON
		return other, nil
	}
	b, okB := comparison.Canonical(other.body)
	if okB {
		other.sum = sha256.Sum256(b)
	}
	// A body under a lost key counts as pruned, because nothing can be compared.
	pruned := body == nil
	if body, _ = s.keyring.Open(place.Body(bodyID), keyID, body); body == nil {
		other.gone = inbox.OriginalSealed
		if pruned {
			other.gone = inbox.OriginalPruned
		}
		return other, nil
	}
	first := body[offset : offset+length]
	a, okA := comparison.Canonical(first)
	if okA && okB && bytes.Equal(a, b) {
		return nil, nil
	}
	if comparison.Differences != nil && okA && okB {
		for _, path := range comparison.Differences(first, other.body) {
			if len(other.paths) == maxPaths {
				break
			}
			other.paths = append(other.paths, pgtext.Clean(path, maxPath))
		}
	}
	if source.Strict {
		other.show(source, a, okA)
	}
	return other, nil
}

// show sets the recorded payload that the caller sees, without the parts that the source hides.
func (c *difference) show(source *inbox.Source, original []byte, json bool) {
	if json && source.Shown != nil {
		original, json = source.Shown(original)
	}
	switch {
	case !json:
		c.gone = inbox.OriginalNotJSON
	case len(original) > inbox.MaxOriginal:
		c.gone = inbox.OriginalTooLarge
	default:
		c.original = original
	}
}
