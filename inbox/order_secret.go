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

// secretLength is that of a key of HMAC-SHA-256.
const secretLength = 32

func orderSecretPlace(id ID) seal.Place {
	return seal.Place{Table: "order_secret", Column: "secret", Row: id}
}

// storedSecret is the secret of a definition as it is stored; none for a definition whose
// keys have plain hashes.
type storedSecret struct {
	id     ID
	sealed []byte
	keyID  *int32
}

// open gives the secret, nil if there is none. Without it no stream of the definition is
// known, so that a process which lacks the sealing key must not go on.
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
// moment ago: it would be refused. And only where no stream is known by a plain hash: those
// of a route's first definition have no salt, and may be older than definitions are.
const mayHashKeyed = `
SELECT NOT EXISTS (
        SELECT FROM node n WHERE n.heartbeat > now() - $2::bigint * interval '1 microsecond' AND coalesce(n.schema_known, 0) < $3)
    AND (EXISTS (SELECT FROM order_definition d WHERE d.route_id = $1) OR NOT EXISTS (SELECT FROM stream s WHERE s.route_id = $1))`

// SealingReturns is how long a silent process may come back and seal with the key that it knew.
const SealingReturns = 10 * time.Minute

// secretForTx gives the id of the secret for a new definition of the route; zero for none.
// A secret that cannot be opened is passed over: its sealing key is lost, and what was
// hashed under it with it.
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
