package failover

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// trace is one event as one database had it.
type trace struct {
	event    string // the sender's id
	received time.Time
	effect   string // the state of its effect at the target that cannot deduplicate
	where    string
}

const readTraces = `
SELECT v.id::text, v.event_id, v.received_at, e.state || coalesce(' (' || e.reason || ')', '') || ', attempts ' || e.attempts
FROM inbox_event v JOIN effect e ON e.event_id = v.id JOIN route r ON r.id = e.route_id
WHERE r.name = 'once' AND v.received_at > $1`

// readTraces adds the events that a server has received since an instant to those that are known.
func (c *campaign) readTraces(ctx context.Context, s *devpg.Server, since time.Time, where string, into map[string]trace) error {
	db, err := rig.Connect(ctx, s.DSN(), c.Schema)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	rows, err := db.Query(ctx, readTraces, since)
	if err != nil {
		return fmt.Errorf("reading what %s received: %w", where, err)
	}
	t := trace{where: where}
	var row string
	_, err = pgx.ForEachRow(rows, []any{&row, &t.event, &t.received, &t.effect}, func() error {
		into[row] = t
		return nil
	})
	return err
}

// lookInto keeps what a former primary received last. The processes use its successor by then; a server that has ended is started for it.
func (c *campaign) lookInto(ctx context.Context, former *devpg.Server, fault Fault, at, promoted time.Time) error {
	if !lab.Running(former) {
		if err := former.Restart(ctx); err != nil {
			return err
		}
	}
	where := fmt.Sprintf("the former primary of cycle %d (%s at %s, promoted at %s)", c.summary.Cycles+1, fault, clock(at), clock(promoted))
	return c.readTraces(ctx, former, at.Add(-warmUp), where, c.former)
}

// explain says of each request where the row was that it was sent from.
func (c *campaign) explain(requests []request, current map[string]trace) string {
	var all []string
	for _, r := range requests {
		var found []string
		for where, t := range map[string]trace{"lost": c.former[r.row], "kept": current[r.row]} {
			if t.event != "" {
				found = append(found, fmt.Sprintf("%s: received at %s by %s, effect %s", where, clock(t.received), t.where, t.effect))
			}
		}
		if len(found) == 0 {
			found = []string{"in no database that was looked at"}
		}
		all = append(all, fmt.Sprintf("at %s attempt %s of row %s, %s", clock(r.at), r.attempt, r.row, strings.Join(found, " and ")))
	}
	return strings.Join(all, "; ")
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }
