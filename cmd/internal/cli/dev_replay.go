package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
)

// devActor is the name of `oncegate dev` in the audit.
const devActor = "dev"

// startReplay plans a replay and starts it if there is something to do. The workers of the process
// carry it out.
func startReplay(ctx context.Context, pool *pgxpool.Pool, cfg *config.Config, logger *slog.Logger, ask replay.PlanRequest) (*replay.Replay, error) {
	keys, err := cfg.Seal.Open(nil)
	if err != nil {
		return nil, err
	}
	judge, err := app.NewJudge(ctx, app.JudgeConfig{Settings: cfg, Pool: pool, Keyring: keys, Logger: logger})
	if err != nil {
		return nil, err
	}
	store, err := app.NewStore(pool, keys)
	if err != nil {
		return nil, err
	}
	replays, err := replay.New(replay.Config{Pool: pool, Store: store, Judge: judge})
	if err != nil {
		return nil, err
	}
	plan, err := replays.Plan(ctx, ask)
	if err != nil || plan.Summary.ToDo == 0 {
		return plan, err
	}
	return replays.Start(ctx, replay.StartRequest{ID: plan.ID, Digest: plan.Digest, Actor: ask.Actor, Reason: ask.Reason})
}

// replayLast replays the event of the last delivery, as the key r asks. Each of its effects is sent
// again under a new idempotency key, because a target that deduplicates would recognize the old one.
func (s *shell) replayLast(ctx context.Context, cfg *config.Config, logger *slog.Logger, log *human) {
	event, name := log.lastEvent()
	if event == "" {
		log.say("replay: nothing was delivered yet")
		return
	}
	todo, err := s.replayEvent(ctx, cfg, logger, event)
	switch {
	case err != nil:
		log.say("replay of " + name + " failed: " + oneLine(err.Error()))
	case todo == 0:
		log.say("replay of " + name + ": it has no effect at rest; one that is still being tried is not replayed")
	default:
		log.say(fmt.Sprintf("replay of %s: %s under a new idempotency key, so a target does the work again", name, plural(todo, "effect is sent", "effects are sent")))
	}
}

func (s *shell) replayEvent(ctx context.Context, cfg *config.Config, logger *slog.Logger, event string) (todo int, err error) {
	id, err := inbox.ParseID(event)
	if err != nil {
		return 0, errors.New("its id is unknown")
	}
	pool, err := session.OpenPool(ctx, cfg.Database.URL, cfg.Database.Schema, session.PoolAdmin, planConnections)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	plan, err := startReplay(ctx, pool, cfg, logger, replay.PlanRequest{
		Scope:   replay.Scope{IDs: []inbox.ID{id}},
		Options: replay.Options{IncludeDone: true, IncludeIndeterminate: true, NewKey: true},
		Actor:   devActor, Reason: "the key r of oncegate dev",
	})
	if err != nil {
		return 0, err
	}
	return plan.Summary.ToDo, nil
}
