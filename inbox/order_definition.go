package inbox

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/inbox/sequence"
)

// OrderDefinition defines how the streams of a route are made. Another definition makes
// other streams, because numbers of different definitions cannot be compared.
type OrderDefinition struct {
	// Words are the definition for people, such as "mode contiguous, key body.order, number
	// body.seq". Definitions with different words are different definitions.
	Words string

	// Policy decides about the streams, even after the definition was replaced.
	Policy sequence.Policy
}

// Digest identifies the definition. Stored: never change.
func (d OrderDefinition) Digest() []byte {
	sum := sha256.Sum256([]byte(d.Words))
	return sum[:]
}

// Series are the streams of one definition. The zero Series belongs to a route's first
// definition.
type Series struct {
	// ID identifies the definition; 0 if none was registered.
	ID int64
	// Salt is in the hashes of keys; nil for the first definition of a route.
	Salt []byte

	// secret is the key of the HMAC of sequence keys; nil for plain hashes.
	secret []byte
}

// KeyHash returns the stored form of a sequence key of the series: its hash, or an HMAC of
// that under the series' secret. Without the secret nobody can check a guessed key against
// the stored form.
func (s Series) KeyHash(source, route, key string) []byte {
	hash := SequenceKeyHash(source, route, key)
	if s.Salt != nil {
		sum := sha256.Sum256(append(hash, s.Salt...))
		hash = sum[:]
	}
	if s.secret == nil {
		return hash
	}
	mac := hmac.New(sha256.New, s.secret)
	mac.Write(hash)
	return mac.Sum(nil)
}

// Two processes that start together must not both be the first.
const lockRoute = `SELECT FROM route WHERE id = $1 FOR NO KEY UPDATE`

const upsertDefinition = `
INSERT INTO order_definition (route_id, digest, salted, words, policy, secret_id)
SELECT $1, $2, EXISTS (SELECT FROM order_definition o WHERE o.route_id = $1), $3, $4, $5
ON CONFLICT ON CONSTRAINT order_definition_key DO UPDATE
SET policy = excluded.policy, used_at = now()`

// RegisterOrders writes how routes are ordered, by their ids, at start, and returns their
// series. A definition that a route had before continues with its own streams. With a
// keyring, the sequence keys of a new definition are hashed under a sealed secret. A
// definition that was made without a secret keeps its plain hashes, because a stream is
// identified by the hash. RegisterOrders returns [seal.ErrLost] if a secret is sealed with
// a key that is not in keys.
func RegisterOrders(ctx context.Context, pool *pgxpool.Pool, keys *seal.Keyring, orders map[int32]OrderDefinition) (map[int32]Series, error) {
	out := make(map[int32]Series, len(orders))
	for route, d := range orders {
		policy, err := json.Marshal(d.Policy)
		if err != nil {
			return nil, fmt.Errorf("registering the order of route %d: %w", route, err)
		}
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, lockRoute, route); err != nil {
				return err
			}
			var secret InstallationSecret
			_, err := seriesOf(ctx, tx, keys, route, d)
			if errors.Is(err, pgx.ErrNoRows) {
				secret, err = InstallationSecretTx(ctx, tx, keys)
			}
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, upsertDefinition, route, d.Digest(), d.Words, policy, secret.ID); err != nil {
				return err
			}
			out[route], err = seriesOf(ctx, tx, keys, route, d)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("registering the order of route %d: %w", route, err)
		}
	}
	return out, nil
}

const readSeries = `
SELECT d.id, d.salted, x.id, x.secret, x.key_id
FROM order_definition d
LEFT JOIN order_secret x ON x.id = d.secret_id
WHERE d.route_id = $1 AND d.digest = $2`

// seriesOf reads the series of a definition; [pgx.ErrNoRows] if there is none.
func seriesOf(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, keys *seal.Keyring, route int32, d OrderDefinition,
) (s Series, err error) {
	var salted bool
	var secret storedSecret
	if err := db.QueryRow(ctx, readSeries, route, d.Digest()).Scan(&s.ID, &salted, &secret.id, &secret.sealed, &secret.keyID); err != nil {
		return s, err
	}
	if salted {
		s.Salt = d.Digest()
	}
	s.secret, err = secret.open(keys)
	return s, err
}

// ReadSeries returns the series that [RegisterOrders] returned for the definitions of
// routes, by the routes' ids. A definition with which no process was started has none. It
// writes nothing.
func ReadSeries(ctx context.Context, pool *pgxpool.Pool, keys *seal.Keyring, orders map[int32]OrderDefinition) (map[int32]Series, error) {
	out := make(map[int32]Series, len(orders))
	for route, d := range orders {
		s, err := seriesOf(ctx, pool, keys, route, d)
		if errors.Is(err, pgx.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the order of route %d: %w", route, err)
		}
		out[route] = s
	}
	return out, nil
}

const readDefinitions = `
SELECT d.id, d.route_id, d.salted, d.policy
FROM order_definition d
WHERE d.route_id = ANY ($1::int[])`

// learn finds the policies of streams that were made under another definition than the one
// their route has in this process, and reads these streams again under that policy.
func (o *order) learn(ctx context.Context) error {
	var other []*orderStream
	var routes []int32
	for _, s := range o.streams {
		if route := o.store.routes[s.routeID]; s.id != 0 && route.Order.Ordered() && !route.Series.has(s.definition) {
			other, routes = append(other, s), append(routes, s.routeID)
		}
	}
	if len(other) == 0 {
		return nil
	}
	byID, first := map[int64]*sequence.Policy{}, map[int32]*sequence.Policy{}
	var b pgx.Batch
	b.Queue(readDefinitions, routes).Query(func(rows pgx.Rows) error {
		var id int64
		var route int32
		var salted bool
		var text []byte
		_, err := pgx.ForEachRow(rows, []any{&id, &route, &salted, &text}, func() error {
			policy := new(sequence.Policy)
			if err := json.Unmarshal(text, policy); err != nil {
				return fmt.Errorf("reading the order of definition %d: %w", id, err)
			}
			if byID[id] = policy; !salted {
				first[route] = policy
			}
			return nil
		})
		return err
	})
	if err := o.send(ctx, &b); err != nil {
		return err
	}
	for _, s := range other {
		if s.policy = byID[s.definition]; s.definition == 0 {
			s.policy = first[s.routeID]
		}
	}
	var again pgx.Batch
	o.queueRead(&again, other)
	return o.send(ctx, &again)
}

// has reports whether a stream with the definition is one of the series.
func (s Series) has(definition int64) bool {
	return s.ID == 0 || definition == s.ID || definition == 0 && s.Salt == nil
}

// ordered returns the policy for the stream, from the definition under which it was made.
func (s *orderStream) ordered(route EffectRoute) sequence.Policy {
	if s.policy != nil && route.Order.Ordered() {
		return s.policy.WithDefaults()
	}
	return route.Order
}

// OrderChange is a route whose order is about to be defined another way.
type OrderChange struct {
	Source string `json:"source"`
	Route  string `json:"route"`
	// Old and New are the definitions in words; New is empty for no order at all.
	Old string `json:"old"`
	New string `json:"new,omitempty"`
	// Known means that New was in use before, and continues with its own streams.
	Known bool `json:"known,omitempty"`
	// Streams counts the streams of the old definition and Held the held effects of the
	// route, each up to [MaxOrderCounted].
	Streams int `json:"streams"`
	Held    int `json:"held"`
}

// MaxOrderCounted is the limit up to which streams and effects of an [OrderChange] are
// counted.
const MaxOrderCounted = row.MaxCounted

// String says what will happen.
func (c OrderChange) String() string {
	what := fmt.Sprintf("%s/%s: its order was %q (streams: %d, held effects: %d); now ", c.Source, c.Route, c.Old, c.Streams, c.Held)
	switch {
	case c.New == "":
		return what + "it has none: all that is held is set going at once"
	case c.Known:
		return what + fmt.Sprintf("%q, which was in use before, continues its streams; held effects follow the order under which they came", c.New)
	}
	return what + fmt.Sprintf("%q begins new streams; held effects follow the order under which they came, or your decision (`oncegate streams list`)", c.New)
}

const readLastDefinition = `
SELECT d.id, d.route_id, d.digest, d.words, d.salted, EXISTS (SELECT FROM order_definition k WHERE k.route_id = d.route_id AND k.digest = $3)
FROM order_definition d
JOIN route r ON r.id = d.route_id
JOIN source s ON s.id = r.source_id
WHERE s.name = $1 AND r.name = $2
ORDER BY d.used_at DESC, d.id DESC
LIMIT 1`

const countOldOrder = `
SELECT
    (SELECT count(*) FROM (SELECT FROM stream t WHERE t.route_id = $1 AND (t.definition_id = $2 OR t.definition_id IS NULL AND NOT $3::boolean) LIMIT $4) c),
    (SELECT count(*) FROM (SELECT FROM effect e WHERE e.route_id = $1 AND e.state = 'held' LIMIT $4) c)`

// ReadOrderChange returns what changes for a route's streams if its order is defined by d;
// a nil d means no order. It returns nil if nothing changes. It writes nothing.
func ReadOrderChange(ctx context.Context, pool *pgxpool.Pool, source, route string, d *OrderDefinition) (*OrderChange, error) {
	c := &OrderChange{Source: source, Route: route}
	var digest, last []byte
	if d != nil {
		c.New, digest = d.Words, d.Digest()
	}
	var id int64
	var routeID int32
	var salted bool
	err := pool.QueryRow(ctx, readLastDefinition, source, route, digest).Scan(&id, &routeID, &last, &c.Old, &salted, &c.Known)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && bytes.Equal(last, digest) {
		return nil, nil //nolint:nilnil // nothing changes
	}
	if err == nil {
		err = pool.QueryRow(ctx, countOldOrder, routeID, id, salted, MaxOrderCounted).Scan(&c.Streams, &c.Held)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the order of route %s/%s: %w", source, route, err)
	}
	if d == nil && c.Held == 0 {
		return nil, nil //nolint:nilnil // nothing is left of the order it had
	}
	return c, nil
}
