package inbox_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/seal"
)

// secretOf returns the secret of a process that starts with the keyring.
func secretOf(t *testing.T, pool *pgxpool.Pool, keys *seal.Keyring) inbox.InstallationSecret {
	t.Helper()
	var secret inbox.InstallationSecret
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
		secret, err = inbox.InstallationSecretTx(t.Context(), tx, keys)
		return err
	})
	if err != nil || secret.Value == nil {
		t.Fatalf("no secret: %v", err)
	}
	return secret
}

// A process that is started by mistake with another keyring makes a second secret. The processes with the right keyring keep the
// first one, also if they learn the other key later, because they would not recognise under the second one what they have recorded.
func TestAWrongKeyringDoesNotReplaceTheSecret(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	first := secretOf(t, pool, storetest.RingOf(t, storetest.FirstKey+" active"))
	wrong := secretOf(t, pool, storetest.RingOf(t, storetest.SecondKey+" active"))
	if bytes.Equal(first.Value, wrong.Value) {
		t.Fatal("a process opened a secret whose key it lacks")
	}
	for name, ring := range map[string]string{
		"the first key":             storetest.FirstKey + " active",
		"both, the first is active": storetest.FirstKey + " active\n" + storetest.SecondKey,
		"both, the other is active": storetest.FirstKey + "\n" + storetest.SecondKey + " active",
	} {
		if got := secretOf(t, pool, storetest.RingOf(t, ring)); !bytes.Equal(got.Value, first.Value) {
			t.Errorf("with %s a process hashes under another secret", name)
		}
	}
	if got := secretOf(t, pool, storetest.RingOf(t, storetest.SecondKey+" active")); !bytes.Equal(got.Value, wrong.Value) {
		t.Error("a process without the first key makes a secret at each start")
	}
}

// Processes that start at once make one secret: under two, they would not recognise each other's hashes.
func TestProcessesMakeOneSecret(t *testing.T) {
	t.Parallel()
	pool, keys := inboxtest.Pool(t), storetest.RingOf(t, storetest.FirstKey+" active")
	const processes = 4
	var ready, all sync.WaitGroup
	ready.Add(processes)
	for range processes {
		all.Go(func() {
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := inbox.InstallationSecrets(t.Context(), tx, keys, nil)
				ready.Done()
				ready.Wait() // nobody has seen a secret
				if err == nil {
					_, err = inbox.InstallationSecretTx(t.Context(), tx, keys)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	secrets, err := inbox.InstallationSecrets(t.Context(), pool, keys, nil)
	if err != nil || len(secrets) != 1 {
		t.Errorf("there are %d secrets, want 1: %v", len(secrets), err)
	}
}

// The databases of an installation share the secret of the first one. One that has hashed under its own keeps it.
func TestDatabasesShareTheSecret(t *testing.T) {
	t.Parallel()
	keys := storetest.RingOf(t, storetest.FirstKey+" active")
	first, other, used := inboxtest.Pool(t), inboxtest.Pool(t), inboxtest.Pool(t)
	own := secretOf(t, used, keys)
	for range 2 {
		for _, pool := range []*pgxpool.Pool{other, used} {
			if err := inbox.ShareInstallationSecret(t.Context(), first, pool, keys); err != nil {
				t.Fatal(err)
			}
		}
	}
	shared := secretOf(t, first, keys)
	if got := secretOf(t, other, keys); got.ID != shared.ID || !bytes.Equal(got.Value, shared.Value) {
		t.Error("the other database has another secret")
	}
	if got := secretOf(t, used, keys); got.ID != own.ID {
		t.Error("a database lost the secret that it had")
	}
	if err := inbox.ShareInstallationSecret(t.Context(), first, other, nil); err != nil {
		t.Errorf("without a keyring: %v", err)
	}
}
