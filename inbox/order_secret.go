package inbox

import (
	"fmt"
	"time"

	"github.com/oncegate/oncegate/inbox/seal"
)

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

// OpenSeries returns the series whose keys have the salt and are hashed under a sealed secret. A zero id means that there
// is no secret.
func OpenSeries(keys *seal.Keyring, salt []byte, id ID, sealed []byte, keyID *int32) (Series, error) {
	stored := storedSecret{id: id, sealed: sealed, keyID: keyID}
	secret, err := stored.open(keys)
	return Series{Salt: salt, secret: secret}, err
}

// SealingReturns is how long a silent process may come back and seal with the key that it knew.
const SealingReturns = 10 * time.Minute
