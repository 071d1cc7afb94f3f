package inbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/internal/advisory"
	"github.com/oncegate/oncegate/internal/session"
)

// Owner says which effect owns a key, after [Effects.Own].
type Owner struct {
	// Held is false if the claim is no longer the caller's: nothing may be done.
	Held bool

	// Effect is the key's owner. It is zero if the effect proceeds without owning the key, because it is older than the
	// owner by more than the window.
	Effect ID

	// locked means that the owner is unknown, because another transaction has locked the effect or its key.
	locked bool
}

// ownAsk is one effect that asks for its key.
type ownAsk struct {
	effect, token ID
	routeID       int32
	hash          []byte
	receivedAt    time.Time
	keep          time.Duration
	item          bool   // one of a list
	remade        string // the idempotency key to store; empty keeps the stored one
}

// Own asks for an effect's key, committed before it returns. The first effect of a route with a key owns it; a later
// one learns who owns it. The later one becomes the owner if the owner is done and was received longer ago than the
// route keeps keys, or if the owner is dead and certainly never happened. An owner that is not settled, or that may
// have happened, keeps the key. A superseded owner has already released it, and so has a skipped one that certainly
// never happened, unless it was skipped in shadow mode: such an owner counts as done.
func (e *Effects) Own(ctx context.Context, claim *Claim, hash []byte) (Owner, error) {
	route := e.routes[claim.RouteID]
	if route.KeyWithin > 0 {
		// It keeps no connection while it waits for the lock of its key.
		var why error
		owner, err := retryWhileLocked(ctx, func() (owner Owner, locked bool, err error) {
			err = pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) (err error) {
				owner, err = e.OwnTx(ctx, tx, claim, hash)
				return err
			})
			if errors.Is(err, ErrLocked) {
				why = err
				return owner, true, nil
			}
			return owner, false, err
		})
		if errors.Is(err, ErrLocked) {
			err = why
		}
		return owner, err
	}
	owner, err := retryWhileLocked(ctx, func() (Owner, bool, error) {
		owner, err := e.owns.Do(ctx, e.ownAsk(claim, hash))
		return owner, owner.locked, err
	})
	if err != nil {
		return Owner{}, fmt.Errorf("asking for the key of effect %s: %w", claim.Effect, err)
	}
	return owner, nil
}

// OwnTx asks for an effect's key in the transaction in which it will act.
func (e *Effects) OwnTx(ctx context.Context, tx pgx.Tx, claim *Claim, hash []byte) (owner Owner, err error) {
	ask := e.ownAsk(claim, hash)
	if within := e.routes[claim.RouteID].KeyWithin; within > 0 {
		if owner, err = ownWithDeadline(ctx, tx, ask, within); row.IsLocked(err) {
			err = e.keyLocked(ctx, keyLock(ask.routeID, ask.hash))
		}
	} else {
		var owners []Owner
		if owners, err = ownKeys(ctx, tx, []ownAsk{ask}); err == nil {
			owner = owners[0]
		}
	}
	if err == nil && owner.locked {
		err = ErrLocked
	}
	if err != nil {
		return Owner{}, fmt.Errorf("asking for the key of effect %s: %w", claim.Effect, err)
	}
	return owner, nil
}

func (e *Effects) ownAsk(claim *Claim, hash []byte) ownAsk {
	remade := ""
	if claim.Remade {
		remade = claim.Key
	}
	return ownAsk{
		remade: remade,
		effect: claim.Effect, token: claim.Token, routeID: claim.RouteID, hash: hash,
		receivedAt: claim.Event.ReceivedAt, keep: e.routes[claim.RouteID].KeyKeep, item: claim.Item > 0,
	}
}

func (e *Effects) ownGroup(ctx context.Context, asks []ownAsk) ([]Owner, error) {
	return ownKeys(ctx, e.pool, asks)
}

// The order of locks: effects by id, then their keys. The statement skips an effect that another transaction has
// locked, and does not return it. If the idempotency key is made of the recipe from now on, the key that was made of
// the event is kept too, because replay recognises the event's effect by it.
const holdBehindOwner = `
WITH reached AS MATERIALIZED (
    SELECT e.id, a.token, a.hash, a.remade, e.lease_token = a.token AND e.lease_until > now() AS held
    FROM unnest($1::uuid[], $2::uuid[], $3::bytea[], $4::text[]) AS a (id, token, hash, remade)
    JOIN effect e ON e.id = a.id
    ORDER BY e.id
    FOR UPDATE OF e SKIP LOCKED),
keyed AS (
    UPDATE effect e
    SET key_hash = h.hash, idempotency_key = coalesce(nullif(h.remade, ''), e.idempotency_key),
        event_key = CASE WHEN h.remade = '' THEN e.event_key ELSE coalesce(e.event_key, e.idempotency_key) END
    FROM reached h
    WHERE e.id = h.id AND h.held
    RETURNING e.lease_token)
SELECT lease_token, true FROM keyed
UNION ALL
SELECT token, false FROM reached WHERE held IS NOT TRUE`

// insertKeys inserts the keys of a group. The first effect wins, also inside the group. The statement waits for a key that another transaction is about to
// write or to delete.
var insertKeys = insertKeysOf(holdsClaim)

// holdsClaim says of an effect e that the asker a still has its claim.
const holdsClaim = `e.lease_token = a.token AND e.lease_until > now()`

// orLockKey ends the insertion of keys. A key that is there already is locked and not written. If it is deleted before it is
// locked, it is inserted. So the unique constraint decides who owns a key, and after the statement each key has an owner
// that no other transaction can remove before this one ends. The next statement sees everything that the last holders of the
// keys have committed, including an owner that was given new attempts.
const orLockKey = `
ON CONFLICT ON CONSTRAINT effect_key_pkey DO UPDATE SET effect_id = effect_key.effect_id WHERE false`

// insertKeysOf is the statement for the effects that fulfil a condition.
func insertKeysOf(condition string) string {
	return `
INSERT INTO effect_key (route_id, key_hash, effect_id, received_at, expires_at)
SELECT DISTINCT ON (a.route_id, a.hash) a.route_id, a.hash, a.id, a.received_at, a.received_at + a.keep * interval '1 microsecond'
FROM unnest(` + ownColumns.Arrays() + `) AS a (` + ownColumns.Names() + `)
JOIN effect e ON e.id = a.id AND ` + condition + `
ORDER BY a.route_id, a.hash, a.received_at, a.id` + orLockKey
}

// neverHappened says of a dead effect o that it certainly did not happen.
const neverHappened = `
    o.state = 'dead' AND ` + row.NoneHappened

// takeOverKeys moves keys to new owners. Two kinds of owners lose their keys, and the earliest of several heirs gets them: an owner that is done, to an event
// received after its window (a pruned owner was settled), and an owner that certainly never happened, to any event. A shadow effect that would have been carried
// out counts as done.
// Existing duplicates of the owner already have its outcome, and stay its duplicates.
var takeOverKeys = takeOverKeysOf(holdsClaim)

// takeOverKeysOf is the statement for the effects that fulfil a condition.
func takeOverKeysOf(condition string) string {
	return `
WITH heirs AS (
    SELECT DISTINCT ON (k.route_id, k.key_hash) k.route_id, k.key_hash, a.id, a.received_at, a.keep
    FROM unnest(` + ownColumns.Arrays() + `) AS a (` + ownColumns.Names() + `)
    JOIN effect_key k ON k.route_id = a.route_id AND k.key_hash = a.hash
    JOIN effect e ON e.id = a.id AND ` + condition + `
    LEFT JOIN effect o ON o.id = k.effect_id
    WHERE a.id <> k.effect_id
        AND ((coalesce(o.state, 'done') = 'done' OR o.state = 'skipped' AND o.reason = 'shadow') AND a.received_at > k.received_at + a.keep * interval '1 microsecond'
            OR ` + neverHappened + `)
    ORDER BY k.route_id, k.key_hash, a.received_at, a.id)
UPDATE effect_key k
SET effect_id = h.id, received_at = h.received_at, expires_at = h.received_at + h.keep * interval '1 microsecond'
FROM heirs h
WHERE k.route_id = h.route_id AND k.key_hash = h.key_hash`
}

var readOwners = `
SELECT a.id, k.effect_id, a.received_at < k.received_at - a.keep * interval '1 microsecond'
FROM unnest(` + ownColumns.Arrays() + `) AS a (` + ownColumns.Names() + `)
JOIN effect_key k ON k.route_id = a.route_id AND k.key_hash = a.hash`

// ownColumns are the columns of the effects that ask for keys.
var ownColumns = row.ColumnsFrom(1,
	row.UUID("id", func(a *ownAsk) ID { return a.effect }),
	row.UUID("token", func(a *ownAsk) ID { return a.token }),
	row.Bytes("hash", func(a *ownAsk) []byte { return a.hash }),
	row.Int("route_id", func(a *ownAsk) int32 { return a.routeID }),
	row.Time("received_at", func(a *ownAsk) time.Time { return a.receivedAt }),
	row.Bigint("keep", func(a *ownAsk) int64 { return a.keep.Microseconds() }),
)

// ownKeys takes one round trip. Sent to a pool, it is a separate transaction.
func ownKeys(ctx context.Context, db row.Batcher, asks []ownAsk) ([]Owner, error) {
	n := len(asks)
	ids, tokens, hashes, remade := make([]ID, n), make([]ID, n), make([][]byte, n), make([]string, n)
	for i, a := range asks {
		ids[i], tokens[i], hashes[i], remade[i] = a.effect, a.token, a.hash, a.remade
	}
	all := ownColumns.Args(asks)
	var held heldClaims
	owners := make(map[ID]ID, n)
	var b pgx.Batch
	b.Queue(holdBehindOwner, ids, tokens, hashes, remade).Query(func(rows pgx.Rows) (err error) {
		held, err = collectHeldClaims(rows)
		return err
	})
	b.Queue(insertKeys, all...)
	b.Queue(takeOverKeys, all...)
	b.Queue(readOwners, all...).Query(func(rows pgx.Rows) error { return collectOwners(rows, owners) })
	if err := db.SendBatch(ctx, &b).Close(); err != nil {
		return nil, err
	}
	out := make([]Owner, n)
	for i, a := range asks {
		isHeld, reached := held[a.token]
		owner, known := owners[a.effect]
		out[i] = Owner{Held: isHeld, Effect: owner, locked: !reached || isHeld && !known}
	}
	return out, nil
}

// heldClaims are the rows of [holdBehindOwner]: whether the claim with a token is still held. A claim without a row is
// locked, because the row of a claimed effect is never deleted.
type heldClaims map[ID]bool

func collectHeldClaims(rows pgx.Rows) (heldClaims, error) {
	claims := heldClaims{}
	var token ID
	var held bool
	_, err := pgx.ForEachRow(rows, []any{&token, &held}, func() error {
		claims[token] = held
		return nil
	})
	return claims, err
}

// collectOwners reads the rows of [readOwners].
func collectOwners(rows pgx.Rows, owners map[ID]ID) error {
	for rows.Next() {
		var id, owner ID
		var beyond bool
		if err := rows.Scan(&id, &owner, &beyond); err != nil {
			return err
		}
		if beyond && owner != id {
			owner = ID{}
		}
		owners[id] = owner
	}
	return rows.Err()
}

// If events count as one only when they were received close to each other, time is divided into periods of that length,
// and a key is stored for each: one period has at most one owner, and an event looks into its own period and the two
// next to it. The lock serialises two events that look into different periods, so that neither overlooks the other.
const (
	lockKey       = `SELECT pg_advisory_xact_lock($1::bigint)`
	boundKeyLocks = `SELECT set_config('lock_timeout', '250ms', true)`

	// Existing keys stay until the transaction ends. The next statement does not see a key that is deleted before it is
	// locked.
	lockKeysWithin = `
SELECT FROM effect_key k
WHERE k.route_id = $1 AND k.key_hash = ANY ($2::bytea[])
    AND k.received_at BETWEEN $3::timestamptz - $4::bigint * interval '1 microsecond'
        AND $3::timestamptz + $4::bigint * interval '1 microsecond'
ORDER BY k.key_hash
FOR UPDATE OF k`

	// An owner that certainly never happened loses its key. The asker has the lock of the key, so that the owner cannot
	// take it again meanwhile.
	releaseKeysWithin = `
DELETE FROM effect_key k
USING effect o
WHERE k.route_id = $1 AND k.key_hash = ANY ($2::bytea[])
    AND k.received_at BETWEEN $3::timestamptz - $4::bigint * interval '1 microsecond'
        AND $3::timestamptz + $4::bigint * interval '1 microsecond'
    AND o.id = k.effect_id AND o.id <> $5::uuid AND ` + neverHappened

	readOwnerWithin = `
SELECT k.effect_id
FROM effect_key k
WHERE k.route_id = $1 AND k.key_hash = ANY ($2::bytea[])
    AND k.received_at BETWEEN $3::timestamptz - $4::bigint * interval '1 microsecond'
        AND $3::timestamptz + $4::bigint * interval '1 microsecond'
ORDER BY k.effect_id <> $5::uuid, k.received_at, k.effect_id
LIMIT 1`
)

var insertKeyWithin = insertKeyWithinOf(`e.lease_token = $2::uuid`)

// insertKeyWithinOf is the statement for an effect that fulfils a condition.
func insertKeyWithinOf(condition string) string {
	return `
INSERT INTO effect_key (route_id, key_hash, effect_id, received_at, expires_at)
SELECT $4::int, $3::bytea, $1::uuid, $5::timestamptz, $5::timestamptz + $6::bigint * interval '1 microsecond'
WHERE EXISTS (SELECT FROM effect e WHERE e.id = $1::uuid AND ` + condition + `)
    AND NOT EXISTS (
        SELECT FROM effect_key k
        WHERE k.route_id = $4::int AND k.key_hash = ANY ($7::bytea[])
            AND k.received_at BETWEEN $5::timestamptz - $8::bigint * interval '1 microsecond'
                AND $5::timestamptz + $8::bigint * interval '1 microsecond')`
}

// StoredKeyHash is a key as an effect stores it. If events count as one only within a time of each other, it is the key
// of the period in which the event was received.
func StoredKeyHash(hash []byte, within time.Duration, receivedAt time.Time) []byte {
	if within <= 0 {
		return hash
	}
	return periodHash(hash, receivedAt.UnixMicro()/within.Microseconds())
}

const readKeyOwner = `SELECT effect_id FROM effect_key WHERE route_id = $1 AND key_hash = $2`

// KeyOwner returns the effect that owns a route's stored key, or zero if none does. It writes and locks nothing.
func KeyOwner(ctx context.Context, pool *pgxpool.Pool, routeID int32, hash []byte) (ID, error) {
	rows, err := pool.Query(ctx, readKeyOwner, routeID, hash)
	if err != nil {
		return ID{}, fmt.Errorf("reading the owner of a key: %w", err)
	}
	owners, err := pgx.CollectRows(rows, pgx.RowTo[ID])
	if err != nil {
		return ID{}, fmt.Errorf("reading the owner of a key: %w", err)
	}
	if len(owners) == 0 {
		return ID{}, nil
	}
	return owners[0], nil
}

// queueKeyLocks queues the locks of keys, in the order of their numbers. Every role may take such
// a lock, so a transaction waits for it only briefly, because it occupies a connection meanwhile.
func queueKeyLocks(b *pgx.Batch, keys ...int64) {
	slices.Sort(keys)
	b.Queue(boundKeyLocks)
	for _, key := range keys {
		b.Queue(lockKey, key)
	}
}

// keyLocked returns [ErrLocked] with the sessions that have the lock of a key.
func (e *Effects) keyLocked(ctx context.Context, key int64) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	holders, _ := advisory.Holders(ctx, e.pool, key)
	return fmt.Errorf("%w: %s", ErrLocked, session.HoldersText(holders))
}

func ownWithDeadline(ctx context.Context, tx pgx.Tx, a ownAsk, within time.Duration) (Owner, error) {
	hashes := periodHashes(a.hash, within, a.receivedAt)
	noted := hashes[1]
	if a.item {
		noted = a.hash // an item is identified by its stored key
	}
	var owner Owner
	var b pgx.Batch
	queueKeyLocks(&b, keyLock(a.routeID, a.hash))
	b.Queue(holdBehindOwner, []ID{a.effect}, []ID{a.token}, [][]byte{noted}, []string{a.remade}).Query(func(rows pgx.Rows) error {
		claims, err := collectHeldClaims(rows)
		held, reached := claims[a.token]
		owner.Held, owner.locked = held, !reached
		return err
	})
	b.Queue(lockKeysWithin, a.routeID, hashes, a.receivedAt, within.Microseconds())
	b.Queue(releaseKeysWithin, a.routeID, hashes, a.receivedAt, within.Microseconds(), a.effect)
	b.Queue(insertKeyWithin, a.effect, a.token, hashes[1], a.routeID, a.receivedAt, a.keep.Microseconds(), hashes, within.Microseconds())
	b.Queue(readOwnerWithin, a.routeID, hashes, a.receivedAt, within.Microseconds(), a.effect).Query(func(rows pgx.Rows) error {
		owners, err := pgx.CollectRows(rows, pgx.RowTo[ID])
		if len(owners) == 1 {
			owner.Effect = owners[0]
		} else {
			owner.locked = owner.locked || owner.Held // a claimed effect's key must have an owner by now
		}
		return err
	})
	return owner, tx.SendBatch(ctx, &b).Close()
}

func periodHash(hash []byte, stretch int64) []byte {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(bytes.Clone(hash), uint64(stretch)))
	return sum[:]
}
