package replay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs"
)

// A plan says what a replay would do, and does nothing of it. Here one effect is dead, because its
// handler refused it for good.
func ExampleStore_Plan() {
	ctx, url, schema := context.Background(), os.Getenv("TEST_DATABASE_URL"), "example_replay_plan"
	defer dropExample(ctx, url, schema)
	if err := oneDeadEffect(ctx, url, schema); err != nil {
		fmt.Println(err)
		return
	}

	pool, err := session.OpenPool(ctx, url, schema, session.PoolAdmin, 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	effects, err := inbox.NewEffects(inbox.EffectsConfig{Pool: pool, Enqueuer: jobs.NewQueue(jobs.QueueConfig{}), Node: "example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	replays, err := replay.New(replay.Config{Pool: pool, Store: effects})
	if err != nil {
		fmt.Println(err)
		return
	}
	plan, err := replays.Plan(ctx, replay.PlanRequest{Scope: replay.Scope{All: true}, Actor: "ada"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(plan.State, "items:", plan.Summary.Items, "to do:", plan.Summary.ToDo)
	for _, group := range plan.Summary.Groups {
		fmt.Println(group.Source+"/"+group.Name, group.Action, group.Count)
	}
	// Output:
	// planned items: 1 to do: 1
	// orders/ledger replay 1
}

// oneDeadEffect emits an event whose handler refuses it.
func oneDeadEffect(ctx context.Context, url, schema string) error {
	ctx, end := context.WithTimeout(ctx, time.Minute)
	defer end()
	og, err := oncegate.Open(ctx, oncegate.Config{
		DatabaseURL: url, Schema: schema, Migrate: true, Logger: slog.New(slog.DiscardHandler),
		Sources: []oncegate.Source{{
			Name: "orders", Provider: "standard-webhooks", Emit: true, Routes: []oncegate.Route{{Name: "ledger"}},
		}},
	})
	if err != nil {
		return err
	}
	err = og.Handle("ledger", func(context.Context, pgx.Tx, oncegate.Event) error {
		return oncegate.Permanent(errors.New("no such account"))
	})
	if err != nil {
		return errors.Join(err, og.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- og.Run(ctx) }()
	select {
	case <-og.Started():
	case err := <-ended:
		return err
	}
	return errors.Join(emitDead(ctx, og, url, schema), og.Close(), <-ended)
}

func emitDead(ctx context.Context, og *oncegate.Inbox, url, schema string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		return og.Emit(ctx, tx, oncegate.Emission{Source: "orders", EventID: "order-1", Type: "order.paid", Payload: []byte(`{}`)})
	})
	for dead := 0; err == nil && dead == 0; {
		err = conn.QueryRow(ctx, `SELECT count(*) FROM `+schema+`.effect WHERE state = 'dead'`).Scan(&dead)
	}
	return err
}

func dropExample(ctx context.Context, url, schema string) {
	conn, err := pgx.Connect(ctx, url)
	if err == nil {
		_, err = conn.Exec(ctx, `DROP SCHEMA IF EXISTS `+schema+` CASCADE`)
		err = errors.Join(err, conn.Close(ctx))
	}
	if err != nil {
		_, _ = io.WriteString(os.Stdout, err.Error())
	}
}
