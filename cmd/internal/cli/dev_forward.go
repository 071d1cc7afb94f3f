package cli

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers/catalog"
)

// forwardTo is the name of the route and the target of `oncegate dev --forward-to`.
const forwardTo = "forward-to"

// devForwardSecret is the secret with which `oncegate dev --forward-to` signs, unless
// ONCEGATE_DEV_FORWARD_SECRET is set. It is public and protects nothing.
const devForwardSecret = "whsec_b25jZWdhdGUtZGV2ZWxvcG1lbnQtZm9yd2FyZC0zMiE=" //nolint:gosec // public, as the comment says

// devForward is a separate configuration for `oncegate dev --forward-to`. Only its target and its
// route are used.
//
//go:embed dev_forward.yml
var devForward string

// forwardEverything makes every source of a configuration send every event only to the address,
// because a trial must not reach the targets of the configuration.
func (s *shell) forwardEverything(cfg *config.Config, address string) error {
	loaded, err := config.Load(config.Options{
		File: "the target of --forward-to", Content: []byte(strings.ReplaceAll(devForward, "ADDRESS", address)), Catalog: new(catalog.Lazy), Dev: true,
		Environ: slices.Concat(devEnviron(), []string{"ONCEGATE_DEV_FORWARD_SECRET=" + devForwardSecret}, s.environ),
	})
	if err != nil {
		return err
	}
	cfg.Targets = loaded.Targets
	for _, source := range cfg.Sources {
		route := *loaded.Sources[0].Routes[0]
		source.Routes = []*config.Route{&route}
	}
	return nil
}

// forwardBanner explains how the program at the address can verify what it receives.
func (s *shell) forwardBanner(address string) {
	fmt.Fprintf(s.out, "forward to  %s   every event of every source\n", clean(address))
	fmt.Fprintf(s.out, "signed with %s   (Standard Webhooks: webhook-id, webhook-timestamp, webhook-signature)\n", clean(cmp.Or(s.env("ONCEGATE_DEV_FORWARD_SECRET"), devForwardSecret)))
}

// forwardSince creates effects for the events received since a time, as a replay does for a new
// route.
func (s *shell) forwardSince(ctx context.Context, cfg *config.Config, logger *slog.Logger, since time.Time) error {
	pool, err := session.OpenPool(ctx, cfg.Database.URL, cfg.Database.Schema, session.PoolAdmin, planConnections)
	if err != nil {
		return fmt.Errorf("forwarding what was received before: %w", err)
	}
	defer pool.Close()
	plan, err := s.planForward(ctx, pool, cfg, logger, since)
	if err != nil {
		return fmt.Errorf("forwarding what was received before: %w", err)
	}
	fmt.Fprintf(s.out, "since %s: %s to forward\n\n", clock(since), plural(plan.Summary.ToDo, "event", "events"))
	return nil
}

func (s *shell) planForward(ctx context.Context, pool *pgxpool.Pool, cfg *config.Config, logger *slog.Logger, since time.Time) (*replay.Replay, error) {
	return startReplay(ctx, pool, cfg, logger, replay.PlanRequest{
		Scope: replay.Scope{DeadFilter: read.DeadFilter{Route: forwardTo, Since: since}}, Options: replay.Options{NewRoutes: true}, Actor: devActor, Reason: "oncegate dev --forward-to --since",
	})
}

// attemptReader returns the target's answer to the last attempt of an effect.
type attemptReader struct {
	lister *read.Lister
	pool   *pgxpool.Pool
}

func newAttemptReader(ctx context.Context, cfg *config.Config) (*attemptReader, error) {
	pool, err := session.OpenPool(ctx, cfg.Database.URL, cfg.Database.Schema, session.PoolAdmin, fewConnections)
	if err != nil {
		return nil, fmt.Errorf("reading the answers of the target: %w", err)
	}
	keys, err := cfg.Seal.Open(nil)
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("reading the answers of the target: %w", err)
	}
	return &attemptReader{lister: read.NewLister(pool).WithKeyring(keys), pool: pool}, nil
}

// answerWithinDev limits how long a log line waits for the answer that it shows.
const answerWithinDev = 5 * time.Second

// answer returns "" if there is no answer, or if it cannot be read now.
func (r *attemptReader) answer(effect string) string {
	id, err := inbox.ParseID(effect)
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerWithinDev)
	defer cancel()
	detail, err := r.lister.Effect(ctx, id)
	if err != nil || len(detail.AttemptRows) == 0 {
		return ""
	}
	last := detail.AttemptRows[len(detail.AttemptRows)-1]
	took := last.FinishedAt.Sub(last.StartedAt).Round(time.Millisecond)
	text := fmt.Sprintf("%s in %s", cmp.Or(last.Code, last.Reason, last.Outcome), took)
	if said := cut(oneLine(last.Excerpt), 120); said != "" {
		text += ": " + said
	}
	return text
}

func (r *attemptReader) close() { r.pool.Close() }
