package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/seal"
)

// orderSecretVersion is the first version of the schema whose programs hash sequence keys
// under a secret.
const orderSecretVersion = 28

// secretLength is the length of a key for HMAC-SHA-256.
const secretLength = 32

func orderSecretPlace(id ID) seal.Place {
	return seal.Place{Table: "order_secret", Column: "secret", Row: id}
}

// storedSecret is the stored secret of a definition; zero for a definition whose keys have
// plain hashes.
type storedSecret struct {
	id     ID
	sealed []byte
	keyID  *int32
}

// open returns the secret, or nil if there is none. A process that lacks the sealing key must
// not start, because without the secret it finds no stream of the definition.
func (s *storedSecret) open(keys *seal.Keyring) ([]byte, error) {
	if s.id.IsZero() {
		return nil, nil
	}
	secret, err := keys.Open(orderSecretPlace(s.id), s.keyID, s.sealed)
	if err == nil && len(secret) != secretLength {
		err = seal.ErrDamaged
	}
	if err != nil {
		return nil, fmt.Errorf("opening the secret of sequence keys: %w", err)
	}
	return secret, nil
}

// A new definition gets a secret only if no process of an earlier version is live, or was a
// moment ago, because that process would be refused. It also gets none if a stream may have a
// plain hash: the streams of a route's first definition have no salt, and may be older than
// definitions.
const mayHashKeyed = `
SELECT NOT EXISTS (
        SELECT FROM node n WHERE n.heartbeat > now() - $2::bigint * interval '1 microsecond' AND coalesce(n.schema_known, 0) < $3)
    AND (EXISTS (SELECT FROM order_definition d WHERE d.route_id = $1) OR NOT EXISTS (SELECT FROM stream s WHERE s.route_id = $1))`

// SealingReturns is how long a silent process may come back and seal with the key that it knew.
const SealingReturns = 10 * time.Minute

// secretForTx returns the id of the secret for a new definition of the route; zero for none. It
// skips a secret that cannot be opened: its sealing key is lost, and with it everything that
// was hashed under the secret.
func secretForTx(ctx context.Context, tx pgx.Tx, keys *seal.Keyring, route int32) (ID, error) {
	ring := keys.Ring()
	if ring == nil {
		return ID{}, nil
	}
	var may bool
	if err := tx.QueryRow(ctx, mayHashKeyed, route, SealingReturns.Microseconds(), orderSecretVersion).Scan(&may); err != nil || !may {
		return ID{}, err
	}
	secret, err := newestSecretTx(ctx, tx, ring, keys)
	return secret.ID, err
}
