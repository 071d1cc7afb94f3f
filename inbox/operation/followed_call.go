package operation

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// FollowedCall is an earlier call as a call that wants to follow it needs to know it.
type FollowedCall struct {
	Event inbox.ID
	// Key is the whole key of the call: <credential>:<operation>:<key>.
	Key       string
	Operation string
	// Intent is the hash of its canonical payload, in its stored form.
	Intent []byte
	// EffectsKept reports whether at least one of its effects is stored. Without any, it is unknown what the
	// call did, because its effects may have been pruned.
	EffectsKept bool
	// Follower is the event of the call that follows it already and keeps another one from it; zero for none.
	Follower inbox.ID
}

// A call is resumed once, and then its follower is resumed. One call for each intent may take its place,
// but none may if another call resumes it: both would be carried out. The hash of an intent may be stored in the form from before
// there was a keyring. A process without one cannot compare a hash with a key, so it takes that intent for the same.
const readFollowedCall = `
SELECT v.event_id, v.type, coalesce(v.canonical_sha256, v.body_sha256),
    EXISTS (SELECT FROM effect e WHERE e.event_id = v.id),
    coalesce((SELECT f.child FROM operation_follow f
        WHERE f.parent = v.id AND (f.kind <> $2 OR f.kind = 'resumes'
            OR f.intent_hash IN ($3::bytea, $4::bytea) OR octet_length(f.intent_hash) > octet_length($3::bytea))
        ORDER BY f.child LIMIT 1), '00000000-0000-0000-0000-000000000000')
FROM inbox_event v
WHERE v.id = $1`

// FollowedCall reads the call that f.Parent names. It returns [inbox.ErrNotFound] if its event is gone.
func (o *Store) FollowedCall(ctx context.Context, f *inbox.Follow) (*FollowedCall, error) {
	out := &FollowedCall{Event: f.Parent}
	err := o.cfg.Pool.QueryRow(ctx, readFollowedCall, f.Parent, f.Kind, o.cfg.Installation.StoredHash(f.Intent[:]), o.cfg.Installation.FormerHash(f.Intent[:])).Scan(&out.Key, &out.Operation, &out.Intent, &out.EffectsKept, &out.Follower)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, inbox.ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("reading the call that another one follows: %s", row.ErrorText(err))
	}
	return out, nil
}
