package inbox

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
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
SET state = 'duplicate', duplicate_of = a.owner, next_at = NULL, finished_at = now(), result = o.result, result_key_id = o.result_key_id
FROM unnest($1::uuid[], $2::uuid[]) AS a (id, owner)
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
	Effect, Event ID
	Found         bool
	State         EffectState

	// KeyHash is the stored key of the effect. ReceivedAt is when its event was received.
	KeyHash    []byte
	ReceivedAt time.Time

	// Rendered is the effect's list, or the message that it sends itself; nil if nothing is stored.
	Rendered []byte

	// Last is the last position of the list that is written. Unkeyed reports whether an
	// item has no separate key, because a version that kept one key for a whole list
	// wrote it.
	Last    int
	Unkeyed bool
}

const readListHead = `
SELECT o.event_id, o.state, o.key_hash, v.received_at, o.rendered, o.rendered_key_id,
    coalesce((SELECT i.item FROM effect i WHERE i.event_id = o.event_id AND i.route_id = o.route_id ORDER BY i.item DESC LIMIT 1), 0),
    EXISTS (SELECT FROM effect i WHERE i.event_id = o.event_id AND i.route_id = o.route_id AND i.item > 0 AND i.key_hash IS NULL)
FROM effect o
JOIN inbox_event v ON v.id = o.event_id
WHERE o.id = $1`

// ListHead reads the effect that owns the key of a recipe.
func (e *Effects) ListHead(ctx context.Context, id ID) (ListHead, error) {
	head := ListHead{Effect: id}
	var keyID *int32
	err := e.pool.QueryRow(ctx, readListHead, id).Scan(&head.Event, &head.State, &head.KeyHash, &head.ReceivedAt, &head.Rendered, &keyID, &head.Last, &head.Unkeyed)
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

// ItemMeaning is the key of an item that is already written.
type ItemMeaning struct {
	Position int // 0 is an effect that sends to its only item itself
	KeyHash  []byte
}

// Existing keys keep their owners. Of several items with one key, the first gets it. A
// skipped, superseded or duplicate item gets none.
const keyItems = `
INSERT INTO effect_key (route_id, key_hash, effect_id, received_at, expires_at)
SELECT DISTINCT ON (a.stored) e.route_id, a.stored, e.id, v.received_at, v.received_at + $5::bigint * interval '1 microsecond'
FROM unnest($3::int[], $4::bytea[]) AS a (item, stored)
JOIN effect e ON e.event_id = $1 AND e.route_id = $2 AND e.item = a.item AND e.state NOT IN ('skipped', 'superseded', 'duplicate')
JOIN inbox_event v ON v.id = e.event_id
ORDER BY a.stored, a.item` + orLockKey

// The key lets an item ask for it again when the item leaves a state at rest. An item that
// another transaction has locked gets its key in the next call.
const tellItemsKeys = `
WITH reached AS MATERIALIZED (
    SELECT e.id, a.hash
    FROM unnest($3::int[], $4::bytea[]) AS a (item, hash)
    JOIN effect e ON e.event_id = $1 AND e.route_id = $2 AND e.item = a.item
    WHERE e.item > 0 AND e.key_hash IS NULL
    ORDER BY e.id
    FOR UPDATE OF e SKIP LOCKED)
UPDATE effect e SET key_hash = r.hash
FROM reached r
WHERE e.id = r.id`

// KeyItems writes the keys of list items that an earlier version wrote without keys, so that
// other lists recognise the items. You may call it again.
func (e *Effects) KeyItems(ctx context.Context, routeID int32, event ID, receivedAt time.Time, items []ItemMeaning) error {
	route := e.routes[routeID]
	for chunk := range slices.Chunk(items, MaxItemsWritten) {
		positions, hashes, stored := make([]int32, len(chunk)), make([][]byte, len(chunk)), make([][]byte, len(chunk))
		for i, it := range chunk {
			positions[i], hashes[i], stored[i] = int32(it.Position), it.KeyHash, StoredKeyHash(it.KeyHash, route.KeyWithin, receivedAt)
		}
		err := pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
			var b pgx.Batch
			b.Queue(tellItemsKeys, event, routeID, positions, hashes)
			b.Queue(keyItems, event, routeID, positions, stored, cmp.Or(route.KeyKeep, DefaultKeyKeep).Microseconds())
			return tx.SendBatch(ctx, &b).Close()
		})
		if err != nil {
			return fmt.Errorf("giving the items of event %s their keys: %w", event, err)
		}
	}
	return nil
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
