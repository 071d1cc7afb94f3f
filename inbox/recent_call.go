package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// RecentCall is a call of an operation as far as its repetition under another key is recognised.
type RecentCall struct {
	Source int32

	// Hash is [RecentCallHash] of it.
	Hash [sha256.Size]byte

	// EventID is its whole key: <credential>:<operation>:<key>.
	EventID string

	// Within is for how long another call with the hash is suspected to be the same.
	Within time.Duration

	// Insist: the caller knows of the other call, and wants this one too.
	Insist bool
}

// RecentCallHash is the same for two calls of one credential that ask one operation for the same.
// intent is the hash of the canonical payload.
func RecentCallHash(credential, operation string, intent []byte) [sha256.Size]byte {
	var text []byte
	for _, part := range [][]byte{[]byte(credential), []byte(operation), intent} {
		text = binary.BigEndian.AppendUint32(text, uint32(len(part)))
		text = append(text, part...)
	}
	return sha256.Sum256(text)
}

// The unique constraint decides which of two calls comes first, also if they come at once. The row
// belongs to the first one until it expires. Each call removes some of what has expired, so that
// the table holds no more than the calls of one window and needs no other care.
const claimRecentCall = `
WITH removed AS (
    DELETE FROM recent_call
    WHERE (source_id, call_hash) IN (
        SELECT x.source_id, x.call_hash FROM recent_call x
        WHERE x.expires_at < now() AND NOT (x.source_id = $1 AND x.call_hash = $2)
        ORDER BY x.expires_at LIMIT 10 FOR UPDATE SKIP LOCKED))
INSERT INTO recent_call AS r (source_id, call_hash, event_id, expires_at)
VALUES ($1, $2, $3, now() + $4::bigint * interval '1 microsecond')
ON CONFLICT ON CONSTRAINT recent_call_pkey DO UPDATE SET event_id = excluded.event_id, expires_at = excluded.expires_at
WHERE $5 OR r.expires_at < now() OR r.event_id = excluded.event_id
RETURNING true`

// The first call may not have reached the gate yet.
const readRecentCall = `
SELECT coalesce(e.id, '00000000-0000-0000-0000-000000000000')
FROM recent_call r
LEFT JOIN inbox_event e ON e.source_id = r.source_id AND e.event_id = r.event_id
WHERE r.source_id = $1 AND r.call_hash = $2`

// ClaimCall notes the call as the first of its kind. suspected reports that another call of the kind came
// within its window under another key; first is that one's event, zero if it is not recorded yet. Of
// calls of one kind that come within a window, exactly one is not suspected, apart from those that insist.
func (o *Operations) ClaimCall(ctx context.Context, c *RecentCall) (first ID, suspected bool, err error) {
	var claimed bool
	err = o.cfg.Pool.QueryRow(ctx, claimRecentCall, c.Source, c.Hash[:], c.EventID, c.Within.Microseconds(), c.Insist).Scan(&claimed)
	switch {
	case err == nil:
		return ID{}, false, nil
	case !errors.Is(err, pgx.ErrNoRows):
		return ID{}, false, fmt.Errorf("noting a call: %s", row.ErrorText(err))
	}
	err = o.cfg.Pool.QueryRow(ctx, readRecentCall, c.Source, c.Hash[:]).Scan(&first)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return ID{}, false, fmt.Errorf("reading which call came first: %s", row.ErrorText(err))
	}
	return first, true, nil
}

const markRepeat = `UPDATE inbox_event SET suspected_replay = true WHERE id = $1`

// MarkRepeat notes with an event that it was suspected to repeat another one.
func (o *Operations) MarkRepeat(ctx context.Context, event ID) error {
	if _, err := o.cfg.Pool.Exec(ctx, markRepeat, event); err != nil {
		return fmt.Errorf("marking a suspected repeat: %s", row.ErrorText(err))
	}
	return nil
}
