package jobs_test

import (
	"context"
	"log/slog"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// A service that has its own pools and Go handlers of both flavours. The store
// and the client each know the two routes by the ids that [inbox.Register] gave
// them.
func Example_handlers() { //nolint:testableexamples // it needs a database
	var storePool, riverPool *pgxpool.Pool // two pools: load on one must not starve the other
	var ledger, charge int32               // registered["shop"].Routes["ledger"].ID, and so on

	store, err := inbox.NewEffects(inbox.EffectsConfig{
		Pool: storePool, Enqueuer: jobs.NewQueue(jobs.QueueConfig{}), Node: "worker-1",
		Routes: map[int32]inbox.EffectRoute{
			ledger: {InDatabase: true},
			charge: {Idempotent: true}, // as the handler says in Deduplicates
		},
	})
	if err != nil {
		return
	}
	client, err := jobs.New(jobs.Config{
		Pool: riverPool, Store: store, Logger: slog.New(slog.NewJSONHandler(os.Stderr, nil)),
		Routes: map[int32]jobs.Route{
			ledger: {Name: "ledger", Source: "shop", Provider: "stripe", Target: "ledger"},
			charge: {Name: "charge", Source: "shop", Provider: "stripe", Target: "bank"},
		},
		Transactionals: map[string]effect.Transactional{
			"ledger": effect.HandlerFunc(func(ctx context.Context, tx pgx.Tx, event effect.Event) error {
				_, err := tx.Exec(ctx, `INSERT INTO ledger (event, at) VALUES ($1, $2)`, event.EventID, event.ReceivedAt)
				return err
			}),
		},
		Senders: map[string]effect.Sender{
			"bank": &effect.OutsideHandler{
				Handle:       func(context.Context, *effect.Call) ([]byte, error) { return nil, nil }, // calls the bank under call.Key
				Deduplicates: true,
			},
		},
	})
	if err != nil {
		return
	}
	if err := client.Start(context.Background()); err != nil {
		return
	}
	defer func() { _ = client.Stop(context.Background()) }()
}
