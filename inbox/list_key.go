package inbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/place"
)

// ItemKeyHash returns the effect key of an item of a list. It is made of the key that the
// route's recipe returns for the event, and of the item's meaning. Stored: never change.
func ItemKeyHash(recipe []byte, meaning string) []byte {
	h := sha256.New()
	h.Write(recipe)
	h.Write([]byte(meaning))
	return h.Sum(nil)
}

// New items may own their keys while they are pending, because no worker has claimed them
// yet. Otherwise the statements are the same as for an attempt; see [ownKeys].
var (
	insertItemKeys   = insertKeysOf(`e.state = 'pending'`)
	takeOverItemKeys = takeOverKeysOf(`e.state = 'pending'`)

	insertItemKeyWithin = insertKeyWithinOf(`e.state = 'pending' AND $2::uuid IS NULL`)
)

const markDuplicates = `
UPDATE effect e
SET state = 'duplicate', duplicate_of = a.owner, reason = nullif(a.reason, ''), next_at = NULL, finished_at = now(), result = o.result, result_key_id = o.result_key_id
FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS a (id, owner, reason)
LEFT JOIN effect o ON o.id = a.owner
WHERE e.id = a.id AND e.state = 'pending'`

// queueItemOwners queues the statements with which new items ask for their keys. When the
// batch has been read, the map has the owner of each item's key, by item. An item that is not in
// the map is sent without owning a key.
func queueItemOwners(b *pgx.Batch, asks []ownAsk, within time.Duration) map[ID]ID {
	owners := make(map[ID]ID, len(asks))
	if len(asks) == 0 {
		return owners
	}
	if within > 0 {
		queueItemOwnersWithin(b, asks, within, owners)
		return owners
	}
	all := ownColumns.Args(asks)
	b.Queue(insertItemKeys, all...)
	b.Queue(takeOverItemKeys, all...)
	b.Queue(readOwners, all...).Query(func(rows pgx.Rows) error { return collectOwners(rows, owners) })
	return owners
}

// queueItemOwnersWithin is queueItemOwners for routes whose keys are unique only within a
// time. The first statement takes all locks in the order of their numbers.
func queueItemOwnersWithin(b *pgx.Batch, asks []ownAsk, within time.Duration, owners map[ID]ID) {
	locks := make([]int64, len(asks))
	for i, a := range asks {
		locks[i] = keyLock(a.routeID, a.hash)
	}
	queueKeyLocks(b, locks...)
	for _, a := range asks {
		hashes := periodHashes(a.hash, within, a.receivedAt)
		b.Queue(lockKeysWithin, a.routeID, hashes, a.receivedAt, within.Microseconds())
		b.Queue(releaseKeysWithin, a.routeID, hashes, a.receivedAt, within.Microseconds(), a.effect)
		b.Queue(insertItemKeyWithin, a.effect, a.token, hashes[1], a.routeID, a.receivedAt, a.keep.Microseconds(), hashes, within.Microseconds())
		b.Queue(readOwnerWithin, a.routeID, hashes, a.receivedAt, within.Microseconds(), a.effect).Query(func(rows pgx.Rows) error {
			found, err := pgx.CollectRows(rows, pgx.RowTo[ID])
			if len(found) == 1 {
				owners[a.effect] = found[0]
			}
			return err
		})
	}
}

// keyLock returns the number of the lock for a key that is unique within a time.
func keyLock(routeID int32, hash []byte) int64 {
	sum := sha256.Sum256(binary.BigEndian.AppendUint32(bytes.Clone(hash), uint32(routeID)))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// periodHashes returns the hashes of a key for the period in which the event was received,
// the period before and the period after it.
func periodHashes(hash []byte, within time.Duration, receivedAt time.Time) [][]byte {
	stretch := receivedAt.UnixMicro() / within.Microseconds()
	return [][]byte{periodHash(hash, stretch-1), periodHash(hash, stretch), periodHash(hash, stretch+1)}
}

// ListHead is an effect that owns the key of a recipe and became, or may become, a list.
type ListHead struct {
	Found bool
	State EffectState

	// KeyHash is the stored key of the effect. ReceivedAt is when its event was received.
	KeyHash    []byte
	ReceivedAt time.Time

	// Rendered is the effect's list, or the message that it sends itself; nil if nothing is stored.
	Rendered []byte

	// Written says that an item of the list is written.
	Written bool
}

const readListHead = `
SELECT o.state, o.key_hash, v.received_at, o.rendered, o.rendered_key_id,
    EXISTS (SELECT FROM effect i WHERE i.event_id = o.event_id AND i.route_id = o.route_id AND i.item > 0)
FROM effect o
JOIN inbox_event v ON v.id = o.event_id
WHERE o.id = $1`

// ListHead reads the effect that owns the key of a recipe.
func (e *Effects) ListHead(ctx context.Context, id ID) (ListHead, error) {
	var head ListHead
	var keyID *int32
	err := e.pool.QueryRow(ctx, readListHead, id).Scan(&head.State, &head.KeyHash, &head.ReceivedAt, &head.Rendered, &keyID, &head.Written)
	if errors.Is(err, pgx.ErrNoRows) {
		return head, nil
	}
	if err == nil {
		head.Rendered, err = e.keys.Open(place.Rendered(id), keyID, head.Rendered)
	}
	if err != nil {
		return head, fmt.Errorf("reading the list of effect %s: %w", id, err)
	}
	head.Found = true
	return head, nil
}

const readHeadList = `
SELECT e.id, e.rendered, e.rendered_key_id FROM effect e WHERE e.event_id = $1 AND e.route_id = $2 AND e.item = 0`

// ListOf returns the stored list to which a claimed item belongs, or nil if nothing is
// stored.
func (e *Effects) ListOf(ctx context.Context, claim *Claim) ([]byte, error) {
	var id ID
	var keyID *int32
	var stored []byte
	err := e.pool.QueryRow(ctx, readHeadList, claim.Event.ID, claim.RouteID).Scan(&id, &stored, &keyID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err == nil {
		stored, err = e.keys.Open(place.Rendered(id), keyID, stored)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the list of item %s: %w", claim.Effect, err)
	}
	return stored, nil
}
