package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

const (
	readReplays = `
SELECT r.id::text, r.state, count(i.replay_id) FILTER (WHERE i.left_out IS NULL AND o.replay_id IS NULL), max(o.acted_at)
FROM replay r LEFT JOIN replay_item i ON i.replay_id = r.id
LEFT JOIN replay_outcome o ON o.replay_id = i.replay_id AND o.position = i.position
GROUP BY 1, 2`
	replayStates = `SELECT state, count(*) FROM replay GROUP BY 1`
	outcomes     = `SELECT outcome, count(*) FROM replay_outcome GROUP BY 1`
)

// replayEnd is how a replay ended.
type replayEnd struct {
	id, state string
	open      int // items without an outcome
	acted     *time.Time
}

// checkReplays checks that replays have ended, and that none acted after it was cancelled.
func (c *campaign) checkReplays(ctx context.Context) error {
	cancels := map[string][]*act{}
	for _, r := range c.replays {
		cancels[r.id] = r.cancelled
	}
	rows, err := c.db.Query(ctx, readReplays)
	if err != nil {
		return fmt.Errorf("reading replays: %w", err)
	}
	var e replayEnd
	if _, err := pgx.ForEachRow(rows, []any{&e.id, &e.state, &e.open, &e.acted}, func() error {
		c.violate(e.judge(cancels[e.id])...)
		return nil
	}); err != nil {
		return fmt.Errorf("reading replays: %w", err)
	}
	o := &operator{campaign: c, name: "end", random: c.randomFor(0, 222)}
	for i, r := range c.replays {
		if len(r.runs) > 0 && i%10 == 0 {
			if err := o.compareReplay(ctx, r.id); err != nil {
				return err
			}
		}
	}
	for name, query := range map[string]string{"replays": replayStates, "items": outcomes} {
		if c.finalCounts[name], err = rig.CountBy(ctx, c.db, query); err != nil {
			return err
		}
	}
	return nil
}

// judge compares the end of a replay with what operators decided about it.
func (e *replayEnd) judge(cancels []*act) (out []violation) {
	switch {
	case e.state == string(replay.Running):
		out = append(out, rig.NewViolation(endless, "replay %s is still running, and %d of its items had no turn", e.id, e.open))
	case e.state == string(replay.Done) && e.open > 0:
		out = append(out, rig.NewViolation(endless, "replay %s is done, and %d of its items had no turn", e.id, e.open))
	}
	for _, a := range cancels {
		if e.state != string(replay.Cancelled) {
			out = append(out, rig.NewViolation(undecided, "replay %s is %s after %s", e.id, e.state, a))
		}
		if e.acted != nil && e.acted.After(a.Ended) {
			out = append(out, rig.NewViolation(endless, "replay %s acted on an item at %s, after %s", e.id, e.acted.Format(clockFormat), a))
		}
	}
	return out
}

// compareCount compares a number that a command reported with the rows.
func compareCount(what string, told, have int64) (out []violation) {
	if told != have {
		out = append(out, rig.NewViolation(miscounted, "%s: it says %d, and there are %d", what, told, have))
	}
	return out
}

// compareReplay compares what `replay status` counts with the rows.
func (o *operator) compareReplay(ctx context.Context, id string) error {
	var out replay.Replay
	a, err := o.runCommand(ctx, commandOptions{kind: "replay status", neverKilled: true}, &out, "replay", "status", id)
	if err != nil || a.ExitCode != 0 {
		return err // a plan may have been pruned
	}
	rows, err := rig.CountBy(ctx, o.db, `SELECT outcome, count(*) FROM replay_outcome WHERE replay_id = $1 GROUP BY 1`, id)
	if err != nil {
		return err
	}
	for _, outcome := range replay.ItemOutcomes() {
		o.violate(compareCount(fmt.Sprintf("items of replay %s that are %s", id, outcome), int64(out.Summary.Outcomes[outcome]), int64(rows[string(outcome)]))...)
	}
	return nil
}
