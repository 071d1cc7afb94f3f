package inbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
)

// InstallationSecret is a secret of this installation. Values that could be guessed are hashed under it: the keys of
// sequences, suppressed addresses, labels and the hashes of content. It is sealed with the keyring and never rotated, because
// the same value has another hash under another secret.
type InstallationSecret struct {
	ID ID
	// Value is the secret; nil if it could not be opened.
	Value []byte
	// Err says why the secret could not be opened.
	Err error
}

// Two processes that start at once must not make two secrets: a hash that one stores would be another hash for the other, which
// would take a duplicate for a conflict.
const lockInstallation = `LOCK TABLE order_secret IN SHARE ROW EXCLUSIVE MODE`

const (
	readInstallation   = `SELECT id, secret, key_id FROM order_secret WHERE NOT id = ANY ($1::uuid[]) ORDER BY created_at, id`
	insertInstallation = `INSERT INTO order_secret (id, secret, key_id) VALUES ($1, $2, $3)`
)

// InstallationSecrets returns the secrets of the installation, the oldest first, except those in known. A secret whose
// sealing key is not in keys comes with its error.
func InstallationSecrets(ctx context.Context, db row.Querier, keys *seal.Keyring, known []ID) ([]InstallationSecret, error) {
	rows, err := db.Query(ctx, readInstallation, append([]ID{}, known...))
	if err != nil {
		return nil, fmt.Errorf("reading the secrets of the installation: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (secret InstallationSecret, err error) {
		var s storedSecret
		if err := row.Scan(&s.id, &s.sealed, &s.keyID); err != nil {
			return secret, err
		}
		secret.ID = s.id
		secret.Value, secret.Err = s.open(keys)
		return secret, nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the secrets of the installation: %w", err)
	}
	return out, nil
}

// ReadInstallationSecret returns the oldest secret that can be opened. It returns the zero value if nothing is sealed, if there is no
// secret yet, or if the sealing keys of all are lost.
//
// A process that was started once with a keyring that lacks a key has made a second secret. The older one has hashed more, and the
// processes that were running then still use it.
func ReadInstallationSecret(ctx context.Context, db row.Querier, keys *seal.Keyring) (InstallationSecret, error) {
	if keys.Ring() == nil {
		return InstallationSecret{}, nil
	}
	known, err := InstallationSecrets(ctx, db, keys, nil)
	if err != nil {
		return InstallationSecret{}, err
	}
	for _, secret := range known {
		switch {
		case secret.Err == nil:
			return secret, nil
		case !errors.Is(secret.Err, seal.ErrLost):
			return InstallationSecret{}, secret.Err
		}
	}
	return InstallationSecret{}, nil
}

// InstallationSecretTx reads the secret as [ReadInstallationSecret] does, and makes one if none can be opened. A secret whose
// sealing key is lost does not prevent that, because the values that were hashed under it are lost too.
func InstallationSecretTx(ctx context.Context, tx pgx.Tx, keys *seal.Keyring) (InstallationSecret, error) {
	secret, err := ReadInstallationSecret(ctx, tx, keys)
	ring := keys.Ring()
	if ring == nil || err != nil || secret.Value != nil {
		return secret, err
	}
	if _, err := tx.Exec(ctx, lockInstallation); err != nil {
		return InstallationSecret{}, err
	}
	if secret, err := ReadInstallationSecret(ctx, tx, keys); err != nil || secret.Value != nil {
		return secret, err
	}
	made := InstallationSecret{ID: NewToken(), Value: make([]byte, secretLength)}
	if _, err := rand.Read(made.Value); err != nil {
		return InstallationSecret{}, err
	}
	sealed, keyID := ring.Seal(orderSecretPlace(made.ID), made.Value)
	_, err = tx.Exec(ctx, insertInstallation, made.ID, sealed, keyID)
	return made, err
}

// ShareInstallationSecret gives another database of the installation the secret of its first database, in which it makes one if there is none.
// It changes nothing if the other database has a secret. The two must share it before either hashes, because a source that moves from one
// to the other brings its hashes.
func ShareInstallationSecret(ctx context.Context, first, other *pgxpool.Pool, keys *seal.Keyring) error {
	ring := keys.Ring()
	if ring == nil {
		return nil
	}
	had, err := ReadInstallationSecret(ctx, other, keys)
	if err != nil || had.Value != nil {
		return err
	}
	var secret InstallationSecret
	err = pgx.BeginFunc(ctx, first, func(tx pgx.Tx) (err error) {
		secret, err = InstallationSecretTx(ctx, tx, keys)
		return err
	})
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, other, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockInstallation); err != nil {
			return err
		}
		if had, err := ReadInstallationSecret(ctx, tx, keys); err != nil || had.Value != nil {
			return err
		}
		sealed, keyID := ring.Seal(orderSecretPlace(secret.ID), secret.Value)
		_, err := tx.Exec(ctx, insertInstallation, secret.ID, sealed, keyID)
		return err
	})
}
