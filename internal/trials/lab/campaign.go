package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// Campaign is one run in a world.
type Campaign struct {
	*World
	*rig.Stage

	// DB is a connection to the schema, once [Campaign.Prepare] has made it.
	DB *pgx.Conn

	// Progress reports what was done.
	Progress func(format string, args ...any)
}

// NewCampaign begins a campaign. progress may be nil. variables are environment variables of every node, as NAME=VALUE.
func NewCampaign(w *World, schema string, progress func(format string, args ...any), variables ...string) *Campaign {
	if progress == nil {
		progress = func(string, ...any) {}
	}
	return &Campaign{World: w, Stage: rig.NewStage(&w.Host, schema, variables...), Progress: progress}
}

// End ends everything that was started for the campaign, the last thing first. It returns err and what went wrong
// meanwhile, with the logs, more of which may be named, and the command that repeats the campaign.
func (c *Campaign) End(err error, repeat string, logs ...string) error {
	return ExplainFailure(errors.Join(err, c.Stage.End()), repeat, append(c.Logs(c.Schema), logs...)...)
}

// Prepare migrates the schema, runs statements in it, and opens DB.
func (c *Campaign) Prepare(ctx context.Context, statements ...string) (err error) {
	if c.DB, err = c.World.Prepare(ctx, c.Schema, statements...); err != nil {
		return err
	}
	c.OnEnd(func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return c.DB.Close(ctx)
	})
	return nil
}

// RunCommand runs a command of the binary as an operator does, with additional environment variables.
func (c *Campaign) RunCommand(ctx context.Context, limit time.Duration, variables []string, args ...string) (CommandResult, error) {
	cfg := c.Node(rig.NodeConfig{Env: variables})
	return RunCommand(ctx, c.Environ(&cfg), limit, c.Binary, args...)
}

// Rest waits until no effect is under way, and fails if that takes longer than the limit.
func (c *Campaign) Rest(ctx context.Context, limit time.Duration) error {
	left, err := rig.Rest(ctx, c.DB, limit)
	if err == nil && left > 0 {
		err = fmt.Errorf("%d effects are under way after %s", left, limit)
	}
	return err
}
