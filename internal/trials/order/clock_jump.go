package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// How far the database's clock is set ahead, and from where on a time that is left counts as ahead: the lease and the pauses of
// retries are some seconds.
const (
	jumpAhead    = time.Hour
	notLongAhead = "interval '5 minutes'"
)

// failSometimes has the target fail in every third call, so that there are retries at any time.
const failSometimes = `
CREATE SEQUENCE order_calls;
ALTER FUNCTION order_apply(text, bigint, timestamptz, boolean) RENAME TO order_apply_now;
CREATE FUNCTION order_apply(k text, n bigint, received timestamptz, slow boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('order_calls') % 3 = 0 THEN
        RAISE EXCEPTION 'not now' USING ERRCODE = 'lock_not_available';
    END IF;
    PERFORM order_apply_now(k, n, received, slow);
END $$`

// pullNothingBack is a planted defect: an effect stays as far ahead as the clock was.
const pullNothingBack = `
CREATE FUNCTION pull_nothing_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.next_at := OLD.next_at;
    NEW.lease_until := OLD.lease_until;
    RETURN NEW;
END $$;
CREATE TRIGGER pull_nothing_back BEFORE UPDATE ON effect FOR EACH ROW
WHEN (NEW.next_at < OLD.next_at AND NEW.state = OLD.state AND NEW.version = OLD.version AND OLD.next_at > now() + interval '5 minutes') EXECUTE FUNCTION pull_nothing_back()`

// Counts times that are far ahead, by the kind of row.
const countAhead = `
SELECT 'effects', count(*) FROM effect WHERE next_at > now() + ` + notLongAhead + `
UNION ALL
SELECT 'gaps', count(*) FROM stream WHERE gap_since > now() + ` + notLongAhead + `
UNION ALL
SELECT 'jobs', count(*) FROM river_job j JOIN effect e ON e.job_id = j.id WHERE j.scheduled_at > now() + ` + notLongAhead + `
    AND j.state IN ('available', 'scheduled', 'retryable') AND e.state IN ('pending', 'retry', 'claimed')
UNION ALL
SELECT 'leaders', count(*) FROM river_leader WHERE expires_at > now() + ` + notLongAhead

// Describes effects that are ahead, with what could show that their times were written while the clock was.
const describeAhead = `
SELECT concat_ws(', ', e.state, 'version ' || e.version, 'attempts ' || e.attempts, 'due in ' || (e.next_at - now()),
    'job ' || j.state || ' of attempt ' || j.attempt, 'made ' || (j.created_at - e.next_at) || ' after that', 'begun ' || (j.attempted_at - e.next_at) || ' after that',
    'scheduled ' || (j.scheduled_at - e.next_at) || ' after that')
FROM effect e LEFT JOIN river_job j ON j.id = e.job_id
WHERE e.next_at > now() + ` + notLongAhead + `
ORDER BY e.id LIMIT 10`

// jumpClock sets the database's clock an hour ahead for the variant's time, while events are delivered and effects happen. Half of the
// workers are killed shortly before the clock is set right, so that they leave leases of an hour.
func (c *campaign) jumpClock(ctx context.Context, watcher *pgx.Conn) ([]rig.Violation, error) {
	if !rig.Pause(ctx, 2*time.Second) {
		return nil, nil
	}
	if err := c.clock.Set(ctx, jumpAhead); err != nil {
		return nil, err
	}
	rig.Pause(ctx, c.options.jump-time.Second/2)
	dead := (len(c.workers) + 1) / 2
	for i := range dead {
		if err := c.workers[i].Kill(); err != nil {
			return nil, err
		}
		c.kills++
	}
	rig.Pause(ctx, time.Second/2)
	if err := c.clock.Set(context.WithoutCancel(ctx), 0); err != nil {
		return nil, err
	}
	var err error
	if c.ahead, err = rig.CountBy(ctx, watcher, countAhead); err != nil {
		return nil, err
	}
	c.jumped = true
	for i := range dead {
		if c.workers[i], err = c.serve(context.WithoutCancel(ctx), "work", "", ""); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// checkJump looks for times that are still ahead, and makes sure that some were.
func (c *campaign) checkJump(ctx context.Context, r *result) error {
	left, err := rig.CountBy(ctx, c.DB, countAhead)
	if err != nil {
		return err
	}
	for _, where := range slices.Sorted(maps.Keys(left)) {
		if left[where] > 0 {
			r.violate(ahead, "%d %s are ahead of the clock that was set right", left[where], where)
		}
	}
	if left["effects"] > 0 && !c.variant.defect() {
		rows, err := c.DB.Query(ctx, describeAhead)
		if err != nil {
			return err
		}
		details, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, detail := range details {
			r.violate(ahead, "%s", detail)
		}
	}
	if c.ahead["effects"] == 0 && !c.variant.defect() {
		r.violate(vacuous, "no effect was ahead when the clock was set right")
	}
	for _, worker := range c.workers {
		metrics, err := worker.Metrics(ctx)
		if err != nil {
			return err
		}
		c.pulledBack += metrics["oncegate_times_pulled_back_total"]
	}
	return nil
}

func (c *campaign) describeJump() string {
	var ahead []string
	for _, where := range slices.Sorted(maps.Keys(c.ahead)) {
		ahead = append(ahead, fmt.Sprintf("%d %s", c.ahead[where], where))
	}
	return fmt.Sprintf(", a clock an hour ahead for %.0f s (then ahead: %s; %g times pulled back)", c.options.jump.Seconds(), strings.Join(ahead, ", "), c.pulledBack)
}
