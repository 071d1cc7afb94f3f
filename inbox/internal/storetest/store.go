package storetest

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
)

// Store returns a store of effects that knows no route.
func Store(t *testing.T, pool *pgxpool.Pool) *inbox.Effects {
	t.Helper()
	effects, err := inbox.NewEffects(inbox.EffectsConfig{Pool: pool, Enqueuer: Queue(), Node: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return effects
}
