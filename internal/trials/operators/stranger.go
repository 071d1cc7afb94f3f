package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/advisory"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// strangerRole may do nothing but connect to the database.
const strangerRole = "stranger"

// strangerSays lists the messages of the stranger on every channel of River. JOB is a job that runs.
var strangerSays = []string{
	`{"action":"pause","queue":"*"}`, `{"action":"pause","queue":"default"}`, `{"action":"cancel","job_id":JOB,"queue":"default"}`,
	`{"action":"request_resign"}`, `not JSON`,
}

var riverChannels = []string{"river_control", "river_insert", "river_leadership"}

const readRunningJobs = `SELECT id FROM river_job WHERE state = 'running' ORDER BY id DESC LIMIT 20`

// pauseQueue is a planted defect: no job begins, as if a process obeyed the stranger.
const (
	pauseQueue = `
CREATE FUNCTION paused() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER paused BEFORE UPDATE ON river_job FOR EACH ROW WHEN (NEW.state = 'running') EXECUTE FUNCTION paused()`
	resumeQueue = `DROP FUNCTION paused CASCADE`
)

// meddle connects as the stranger, who pauses the queues, cancels the jobs that run and takes the locks of prune and of partitions.
// While the stranger has the locks, an event is delivered whose effects must be carried out, and prune alone must wait.
func (c *campaign) meddle(ctx context.Context, round int) (err error) {
	cfg, err := pgx.ParseConfig(c.DSN())
	if err != nil {
		return fmt.Errorf("reading the server's address: %w", err)
	}
	cfg.User, cfg.Password = strangerRole, strangerRole
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("connecting as a stranger: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }() // the locks are free then
	for _, lock := range []struct {
		query string
		args  []any
	}{
		{`SELECT pg_advisory_lock($1, $2)`, []any{advisory.Space, advisory.Partitions}},
		{`SELECT pg_advisory_lock($1, hashtext($2))`, []any{advisory.Prune, schema}},
	} {
		if _, err := conn.Exec(ctx, lock.query, lock.args...); err != nil {
			return fmt.Errorf("taking a lock: %w", err)
		}
	}
	rows, err := c.db.Query(ctx, readRunningJobs)
	if err != nil {
		return fmt.Errorf("reading jobs: %w", err)
	}
	jobs, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return fmt.Errorf("reading jobs: %w", err)
	}
	if err := say(ctx, conn, append(jobs, 0)); err != nil {
		return err
	}
	if c.defects {
		if _, err := c.db.Exec(ctx, pauseQueue); err != nil {
			return fmt.Errorf("being wrong: %w", err)
		}
		defer func() {
			_, resumed := c.db.Exec(context.WithoutCancel(ctx), resumeQueue)
			err = errors.Join(err, resumed)
		}()
	}
	if err := c.checkWork(ctx, round); err != nil {
		return err
	}
	return c.checkGuarded(ctx, round, len(jobs))
}

// say sends everything on every channel for each job.
func say(ctx context.Context, conn *pgx.Conn, jobs []int64) error {
	var b pgx.Batch
	for _, channel := range riverChannels {
		for _, job := range jobs {
			for _, text := range strangerSays {
				b.Queue(`SELECT pg_notify($1, $2)`, schema+"."+channel, strings.ReplaceAll(text, "JOB", strconv.FormatInt(job, 10)))
			}
		}
	}
	if err := conn.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("speaking as a stranger: %w", err)
	}
	return nil
}

// The effects of an event that wait for their first attempt.
const countUntouched = `
SELECT count(*) FROM effect e JOIN inbox_event v ON v.id = e.event_id JOIN source s ON s.id = v.source_id
WHERE s.name = $1 AND v.event_id = $2 AND e.state = 'pending' AND e.attempts = 0`

// workWithin is how long an event may wait until its effects are begun.
const workWithin = 15 * time.Second

// checkWork delivers some events and looks whether the effects of each are begun. There is a pause between them, because the effects of
// the first event may begin before a process takes notice of what the stranger said.
func (c *campaign) checkWork(ctx context.Context, round int) error {
	for range 3 {
		e := c.deliveries.newEvent(c.seed, "brief", payload{Type: "brief.said"})
		if err := c.deliver(ctx, c.randomFor(round, 203), e, 0); err != nil {
			return err
		}
		err := rig.Until(ctx, workWithin, "effects to begin", func() (bool, error) {
			var left int
			err := c.db.QueryRow(ctx, countUntouched, e.source, e.id).Scan(&left)
			return left == 0, err
		})
		if errors.Is(err, rig.ErrTimeout) {
			c.violate(rig.NewViolation(stopped, "no effect of %s/%s was begun within %s after a stranger had paused the queues and taken locks", e.source, e.id, workWithin))
			return nil
		}
		if err != nil {
			return err
		}
		rig.Pause(ctx, 300*time.Millisecond)
	}
	return nil
}

// checkGuarded looks whether prune waits for its lock.
func (c *campaign) checkGuarded(ctx context.Context, round, jobs int) error {
	o := &operator{campaign: c, name: "stranger's witness", random: c.randomFor(round, 204), round: round}
	report := struct{ Obtained *bool }{}
	a, err := o.runCommand(ctx, commandOptions{kind: "prune while a stranger has its lock", neverKilled: true}, &report, "prune")
	if err != nil {
		return err
	}
	if a.ExitCode == 0 && (report.Obtained == nil || *report.Obtained) {
		c.violate(rig.NewViolation(stopped, "%s pruned although a stranger has the lock", a))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts["stranger paused"]++
	c.counts["stranger cancelled jobs"] += jobs
	return nil
}
