package night

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// runCommand runs one command as an operator would, and reads the JSON that it writes.
func (n *Campaign) runCommand(ctx context.Context, into any, args ...string) error {
	result, err := n.RunCommand(ctx, 0, nil, append(args, "--output", "json")...)
	if err != nil {
		return err
	}
	if result.ExitCode != 0 {
		return fmt.Errorf("oncegate %v: exit status %d: %s", args, result.ExitCode, result.Stderr)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal([]byte(result.Stdout), into); err != nil {
		return fmt.Errorf("reading what oncegate %v wrote: %w", args, err)
	}
	return nil
}

// Plan is one plan, with what was measured around it.
type Plan struct {
	Replay replay.Replay
	Items  []replay.Item

	// FirstRequest is how many requests the targets had received when the plan was made, and LastRequest when
	// everything it began had ended.
	FirstRequest, LastRequest int

	// Before has the effects as they were when the plan was made.
	Before map[string]Effect
}

// makePlan plans everything that is in a resting state, and checks that nothing else is done.
func (n *Campaign) makePlan(ctx context.Context) error {
	before, err := n.hashTables(ctx)
	if err != nil {
		return err
	}
	p := Plan{FirstRequest: n.target.requestCount()}
	if p.Before, err = n.readEffects(ctx); err != nil {
		return err
	}
	if err := n.runCommand(ctx, &p.Replay, "replay", "plan", "--all"); err != nil {
		return err
	}
	after, err := n.hashTables(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if before[name] != after[name] {
			n.evidence.ChangedByPlan = append(n.evidence.ChangedByPlan, name)
		}
	}
	n.evidence.SentByPlan += n.target.requestCount() - p.FirstRequest
	n.evidence.Plans = append(n.evidence.Plans, p)
	return n.readItems(ctx)
}

// readItems reads the items of the last plan, page by page.
func (n *Campaign) readItems(ctx context.Context) error {
	p := &n.evidence.Plans[len(n.evidence.Plans)-1]
	p.Items = nil
	for after := ""; ; {
		var page read.Page[replay.Item]
		args := []string{"replay", "items", p.Replay.ID.String(), "--limit", "1000"}
		if after != "" {
			args = append(args, "--after", after)
		}
		if err := n.runCommand(ctx, &page, args...); err != nil {
			return err
		}
		p.Items = append(p.Items, page.Data...)
		if !page.HasMore {
			return nil
		}
		after = page.Next
	}
}

func (n *Campaign) runPlan(ctx context.Context, rate int) error {
	p := &n.evidence.Plans[len(n.evidence.Plans)-1]
	return n.runCommand(ctx, nil, "replay", "run", p.Replay.ID.String(), "--digest", p.Replay.Digest, "--reason", "billing is up again", "--rate", strconv.Itoa(rate))
}

// waitForShare waits until a run has acted on a share of its items.
func (n *Campaign) waitForShare(ctx context.Context, percent int) error {
	p := &n.evidence.Plans[len(n.evidence.Plans)-1]
	return rig.Until(ctx, n.limit(), fmt.Sprintf("%d %% of the items to have their turn", percent), func() (bool, error) {
		var acted int
		err := n.DB.QueryRow(ctx, `SELECT count(*) FROM replay_outcome WHERE replay_id = $1`, p.Replay.ID).Scan(&acted)
		return acted*100 >= p.Replay.Summary.ToDo*percent, err
	})
}

// runAndInterrupt runs the plan, kills the process in the middle, starts it again, and cancels the replay before its
// end.
func (n *Campaign) runAndInterrupt(ctx context.Context) error {
	p := &n.evidence.Plans[0]
	rate := max(p.Replay.Summary.ToDo/10, 5)
	if err := n.runPlan(ctx, rate); err != nil {
		return err
	}
	if err := n.waitForShare(ctx, 25); err != nil {
		return err
	}
	if err := n.node.Kill(); err != nil {
		return err
	}
	if err := n.serve(ctx, configurationAfter); err != nil {
		return err
	}
	// It would continue by itself as soon as the sweeper finds that its job is lost.
	if err := n.runPlan(ctx, rate); err != nil {
		return err
	}
	if err := n.waitForShare(ctx, 55); err != nil {
		return err
	}
	if err := n.runCommand(ctx, nil, "replay", "cancel", p.Replay.ID.String(), "--reason", "it is morning"); err != nil {
		return err
	}
	return n.finishPlan(ctx)
}

// finishPlan waits until everything that a plan began has ended, and reads the outcomes.
func (n *Campaign) finishPlan(ctx context.Context) error {
	if err := n.Rest(ctx, n.limit()); err != nil {
		return err
	}
	if err := n.readItems(ctx); err != nil {
		return err
	}
	p := &n.evidence.Plans[len(n.evidence.Plans)-1]
	p.LastRequest = n.target.requestCount()
	return nil
}

// replayRest plans what the cancellation left, and runs all of it.
func (n *Campaign) replayRest(ctx context.Context) error {
	if err := n.makePlan(ctx); err != nil {
		return err
	}
	if err := n.runPlan(ctx, 0); err != nil {
		return err
	}
	if err := n.waitForShare(ctx, 100); err != nil {
		return err
	}
	return n.finishPlan(ctx)
}

// hashTables returns a hash of each of our tables. River's tables, the progress of prune, the heartbeats and the counts
// of deliveries change by themselves; of River's jobs only new ones count.
func (n *Campaign) hashTables(ctx context.Context) (map[string]string, error) {
	rows, err := n.DB.Query(ctx, `
		SELECT relname::text FROM pg_class
		WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND relname NOT LIKE 'river%'
			AND relname NOT IN ('prune_walk', 'node', 'stat_flush', 'stat_minute', 'stat_hour')`)
	if err != nil {
		return nil, fmt.Errorf("listing tables: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("listing tables: %w", err)
	}
	queries := map[string]string{"river_job": `SELECT coalesce(max(id), 0)::text FROM river_job WHERE kind IN ('effect', 'rearm', 'replay')`}
	for _, name := range names {
		queries[name] = `SELECT count(*) || ':' || coalesce(md5(string_agg(md5(t::text), '' ORDER BY md5(t::text))), '') FROM ` + pgx.Identifier{name}.Sanitize() + ` t`
	}
	out := make(map[string]string, len(queries))
	for name, query := range queries {
		var hash string
		if err := n.DB.QueryRow(ctx, query).Scan(&hash); err != nil {
			return nil, fmt.Errorf("hashing table %s: %w", name, err)
		}
		out[name] = hash
	}
	return out, nil
}

// readEffects reads all effects.
func (n *Campaign) readEffects(ctx context.Context) (map[string]Effect, error) {
	rows, err := n.DB.Query(ctx, `
		SELECT e.id::text, s.name, v.event_id, r.name, e.state, e.version, e.idempotency_key, e.unknown_since IS NOT NULL
		FROM effect e JOIN inbox_event v ON v.id = e.event_id JOIN route r ON r.id = e.route_id JOIN source s ON s.id = v.source_id`)
	if err != nil {
		return nil, fmt.Errorf("reading effects: %w", err)
	}
	out := map[string]Effect{}
	var e Effect
	var id string
	_, err = pgx.ForEachRow(rows, []any{&id, &e.Source, &e.EventID, &e.Route, &e.State, &e.Version, &e.Key, &e.Unknown}, func() error {
		out[id] = e
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading effects: %w", err)
	}
	return out, nil
}

// readLedgers reads the effects and what the targets recorded.
func (n *Campaign) readLedgers(ctx context.Context) (err error) {
	if n.evidence.After, err = n.readEffects(ctx); err != nil {
		return err
	}
	rows, err := n.DB.Query(ctx, `SELECT key FROM night_applied`)
	if err != nil {
		return fmt.Errorf("reading what was applied: %w", err)
	}
	if n.evidence.Applied, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return fmt.Errorf("reading what was applied: %w", err)
	}
	n.target.mu.Lock()
	defer n.target.mu.Unlock()
	n.evidence.Requests, n.evidence.Done = slices.Clone(n.target.requests), maps.Clone(n.target.done)
	return nil
}
