package failover

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/history"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// The kinds of violations.
const (
	// Lost: an acknowledged event is not recorded, although commits waited for the standby.
	Lost rig.Kind = "lost"
	// Doubled: an effect happened twice where it must not.
	Doubled rig.Kind = "doubled"
	// Unfinished: an effect did not come to rest, or did not happen although it is done.
	Unfinished rig.Kind = "unfinished"
	// Needless: effects became indeterminate although nothing was missing.
	Needless rig.Kind = "needless"
)

const readEffects = `
SELECT v.event_id, r.name, e.state, coalesce(e.reason, ''), coalesce(a.times, 0)
FROM effect e JOIN inbox_event v ON v.id = e.event_id JOIN route r ON r.id = e.route_id
LEFT JOIN (SELECT event_id, count(*) AS times FROM failover_applied GROUP BY 1) a ON a.event_id = v.event_id`

// check stops the load, waits for the effects, and compares what was acknowledged and what the targets heard with the database.
func (c *campaign) check(ctx context.Context) ([]rig.Violation, error) {
	c.stopSending()
	c.sending.Wait()
	db, err := rig.Connect(ctx, c.primary.DSN(), c.schema)
	if err != nil {
		return nil, err
	}
	defer db.Close(context.WithoutCancel(ctx))
	var found []rig.Violation
	err = rig.Until(ctx, waitLimit, "the effects to come to rest", func() (bool, error) {
		left, err := rig.Unfinished(ctx, db)
		return left == 0, err
	})
	if errors.Is(err, rig.ErrTimeout) {
		found = append(found, rig.NewViolation(Unfinished, "effects did not come to rest"))
	} else if err != nil {
		return nil, err
	}
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	s := &c.summary
	recorded := map[string]bool{}
	rows, err := db.Query(ctx, readEffects)
	if err != nil {
		return nil, err
	}
	var event, route, state, reason string
	var applied int
	_, err = pgx.ForEachRow(rows, []any{&event, &route, &state, &reason, &applied}, func() error {
		recorded[event] = true
		switch route {
		case "once":
			s.Once++
			heard := len(c.ledger.once[event])
			if state == "indeterminate" {
				s.Indeterminate++
				if reason == "restored" {
					s.Restored++
				}
				if heard == 0 {
					s.NeverArrived++
				}
			} else if state != "done" || heard == 0 {
				found = append(found, rig.NewViolation(Unfinished, "%s is %s (%s) and was heard %d times", event, state, reason, heard))
			}
		case "keyed":
			total := 0
			for _, n := range c.ledger.keyed[event] {
				total += n
			}
			if total > 1 {
				s.SentAgain++
			}
			if len(c.ledger.keyed[event]) != 1 {
				found = append(found, rig.NewViolation(Doubled, "%s was sent under %d keys", event, len(c.ledger.keyed[event])))
			}
		case "table":
			s.Applied += applied
			if applied != 1 {
				found = append(found, rig.NewViolation(Doubled, "%s happened %d times in the database", event, applied))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	current := map[string]trace{}
	if err := c.readTraces(ctx, c.primary, time.Time{}, "the primary", current); err != nil {
		return nil, err
	}
	for event, requests := range c.ledger.once {
		if len(requests) > 1 {
			s.Doubled++
			found = append(found, rig.NewViolation(Doubled, "%s was heard %d times by a target that cannot deduplicate: %s", event, len(requests), c.explain(requests, current)))
		}
	}
	for row, t := range c.former {
		if current[row].event == "" && recorded[t.event] {
			s.RecordedAgain++
		}
	}
	s.Acked, s.Recorded = len(c.ledger.acked), len(recorded)
	for event := range c.ledger.acked {
		if recorded[event] {
			continue
		}
		s.Lost++
		if c.options.Synchronous {
			found = append(found, rig.NewViolation(Lost, "%s was acknowledged and is not recorded", event))
		}
	}
	verdicts, err := rig.CountBy(ctx, db, `SELECT verdict, count(*) FROM database_history GROUP BY 1`)
	if err != nil {
		return nil, err
	}
	s.Whole, s.SetAside = verdicts[string(history.Whole)], verdicts[string(history.Restored)]
	if c.options.Synchronous && s.SetAside > 0 {
		found = append(found, rig.NewViolation(Needless, "%d timelines count as restored, with %d effects", s.SetAside, s.Restored))
	}
	return found, nil
}
