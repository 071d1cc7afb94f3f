package crash

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/trials/rig"
	"github.com/oncegate/oncegate/migrations"
)

// Options choose what a campaign does.
type Options struct {
	// Cycles is how often something is killed.
	Cycles int

	// Seed decides the schedule of kills and deliveries; what is hit still depends
	// on timing.
	Seed uint64

	// Wrong makes the campaign run on something that breaks the promise, to see
	// whether that is noticed; it does not wait for the effects then.
	Wrong Wrong

	// Pooler puts a PgBouncer in session mode between the binary and PostgreSQL, which drops
	// what startup messages ask for, as people configure it when it refuses a client.
	Pooler bool

	// PostgresOnly kills nothing but PostgreSQL.
	PostgresOnly bool

	// Progress is told about each cycle; it may be nil.
	Progress func(format string, args ...any)
}

// Wrong is a way to break the promise on purpose.
type Wrong string

// The ways.
const (
	// AckEarly acknowledges before the commit.
	AckEarly Wrong = "ack before commit"
	// Asynchronous does not wait for the disk: synchronous_commit=off.
	Asynchronous Wrong = "synchronous_commit=off"
)

// Summary is a campaign in figures.
type Summary struct {
	Cycles, Events, Forged                     int
	Sent, Acked, Duplicates, Ambiguous, Faults int
	Effects, Forwarded                         int
	Random, FailPoints, Postgres, Both, Cuts   int
	Silences                                   int
	Lost, Doubled, Altered, Alien, Other       int
	Starts                                     int
	Conflicts                                  int
	Elapsed                                    time.Duration
	Seed                                       uint64
}

// String is the summary in one line.
func (s *Summary) String() string {
	return fmt.Sprintf("crash: %d cycles (%d kills of the binary at random, %d at fail points, %d of PostgreSQL, %d of both, %d cuts at COMMIT, %d silences), "+
		"%d events in %d deliveries, %d acked, %d of them duplicates and %d conflicts, %d ambiguous, %d times 5xx, %d forged events; %d effects, %d forwards; "+
		"lost %d, doubled %d, altered %d, alien %d, other %d; seed %d, %.1f s",
		s.Cycles, s.Random, s.FailPoints, s.Postgres, s.Both, s.Cuts, s.Silences, s.Events, s.Sent, s.Acked, s.Duplicates, s.Conflicts, s.Ambiguous, s.Faults, s.Forged,
		s.Effects, s.Forwarded, s.Lost, s.Doubled, s.Altered, s.Alien, s.Other, s.Seed, s.Elapsed.Seconds())
}

// Campaign is one run on a schema of its own.
type Campaign struct {
	options       Options
	world         *World
	schema        string
	config        string
	public, admin string
	random        *mathrand.Rand
	summary       Summary
	ledger        *Ledger
	sink          *Sink
	process       *process
	pooler        *devpg.Pooler // nil without one
	proxy         *rig.Proxy
	dsn           string // through the proxy
	beforeKill    func()
}

// Result is what a campaign leaves behind.
type Result struct {
	Summary    Summary
	Violations []Violation
	Sent       map[string]Sent
	Calls      map[string]Calls
	Database   *Database

	// Schema is where the database still has it all.
	Schema string
}

// Run runs a campaign.
func (w *World) Run(ctx context.Context, o Options) (_ *Result, err error) {
	started := time.Now()
	var id [4]byte
	rand.Read(id[:])
	run := hex.EncodeToString(id[:])
	if o.Progress == nil {
		o.Progress = func(string, ...any) {}
	}
	c := &Campaign{
		options: o, world: w, schema: "crash_" + run, config: filepath.Join(w.dir, run+".yml"), ledger: newLedger(run),
		beforeKill: func() {}, random: mathrand.New(mathrand.NewPCG(o.Seed, 0)), summary: Summary{Cycles: o.Cycles, Seed: o.Seed}, //nolint:gosec // a schedule is no secret
	}
	defer func() {
		err = rig.Early(err, fmt.Sprintf("./scripts/crash -cycles %d -seed %d -pooler=%t", o.Cycles, o.Seed, o.Pooler), filepath.Join(w.dir, c.schema+"*.log"), w.server.LogPath())
	}()
	if o.Pooler {
		if c.pooler, err = devpg.StartPooler(ctx, devpg.PoolerConfig{Server: w.server.DSN(), Settings: map[string]string{
			"ignore_startup_parameters": ignoring, "server_login_retry": "0.1",
		}}); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, c.pooler.Stop()) }()
	}
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.sink.close(), c.proxy.Close()) }()
	defer func() {
		if c.process != nil {
			err = errors.Join(err, c.process.Kill())
		}
	}()
	if err := c.kill(ctx); err != nil {
		return nil, err
	}
	r := &Result{Schema: c.schema, Sent: c.ledger.Events(), Calls: c.sink.Calls()}
	db, err := w.Connect(ctx, c.schema)
	if err != nil {
		return nil, err
	}
	defer db.Close(context.WithoutCancel(ctx))
	if r.Database, err = Read(ctx, db); err != nil {
		return nil, err
	}
	r.Violations = Check(r.Sent, r.Database, r.Calls)
	c.sum(r)
	c.summary.Elapsed = time.Since(started)
	r.Summary = c.summary
	return r, nil
}

// ignoring is what the pooler drops from startup messages.
const ignoring = "search_path, synchronous_commit, lock_timeout, statement_timeout, idle_in_transaction_session_timeout, options, " +
	"client_connection_check_interval, tcp_keepalives_idle, tcp_keepalives_interval, tcp_keepalives_count, tcp_user_timeout, " +
	"enable_seqscan, enable_hashjoin, enable_mergejoin, enable_bitmapscan, jit, plan_cache_mode, random_page_cost"

// reached is where the binary reaches the database.
func (c *Campaign) reached() string {
	if c.pooler != nil {
		return c.pooler.DSN()
	}
	return c.world.server.DSN()
}

// Connect opens a connection whose search_path is the schema.
func (w *World) Connect(ctx context.Context, schema string) (*pgx.Conn, error) {
	return rig.Connect(ctx, w.server.DSN(), schema)
}

// A function that is called twice leaves two rows: nothing here is unique.
const makeTarget = `
CREATE TABLE crash_applied (event_id text NOT NULL, key text NOT NULL);
CREATE FUNCTION crash_apply(document jsonb) RETURNS void LANGUAGE sql AS
    'INSERT INTO crash_applied VALUES (document ->> ''id'', document ->> ''key'')';`

// gatePool is what the connections call themselves over which the gate commits.
const gatePool = "oncegate gate"

// prepare makes the schema, the targets, the configuration and the addresses.
func (c *Campaign) prepare(ctx context.Context) error {
	if err := migrations.Up(ctx, c.reached(), c.schema); err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	db, err := c.world.Connect(ctx, c.schema)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	if _, err := db.Exec(ctx, makeTarget); err != nil {
		return fmt.Errorf("making the target: %w", err)
	}
	// The binary has to ask for what it promises, whatever the database is set to.
	if _, err := db.Exec(ctx, "ALTER DATABASE oncegate SET synchronous_commit = off"); err != nil {
		return fmt.Errorf("setting synchronous_commit: %w", err)
	}
	if c.public, err = rig.FreeAddress(); err != nil {
		return err
	}
	if c.admin, err = rig.FreeAddress(); err != nil {
		return err
	}
	if c.proxy, c.dsn, err = rig.StartProxy(c.reached(), gatePool); err != nil {
		return err
	}
	if c.sink, err = startSink(); err != nil {
		return errors.Join(err, c.proxy.Close())
	}
	if err := os.WriteFile(c.config, fmt.Appendf(nil, configuration, c.sink.address), 0o600); err != nil {
		return errors.Join(fmt.Errorf("writing the configuration: %w", err), c.sink.close(), c.proxy.Close())
	}
	return nil
}

// kill is the campaign itself: load, kills, and rest.
func (c *Campaign) kill(ctx context.Context) error {
	plan := c.plan()
	if err := c.restart(ctx, plan[0]); err != nil {
		return err
	}
	senders := newSenders(c.ledger, c.public)
	sending, stop := context.WithCancel(ctx)
	defer stop()
	senders.start(sending, c.options.Seed+1)
	for i, step := range plan[:c.options.Cycles] {
		if c.options.Wrong != "" && i == c.options.Cycles-1 {
			c.beforeKill = stop // else redeliveries put right what the last kill has lost
		}
		if err := c.cycle(ctx, step, plan[i+1]); err != nil {
			return fmt.Errorf("cycle %d: %w", i+1, err)
		}
		c.options.Progress("cycle %d of %d: %s", i+1, c.options.Cycles, step)
	}
	stop()
	if c.options.Wrong != "" {
		senders.wait.Wait()
		return nil
	}
	timed, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	senders.finish(timed, c.options.Seed)
	if err := c.rest(timed); err != nil {
		return err
	}
	if err := c.process.Stop(30 * time.Second); err != nil {
		return err
	}
	if err := c.process.Err(); err != nil {
		return fmt.Errorf("the binary did not stop in order: %w: %s", err, c.logTail())
	}
	return nil
}

const unfinished = `SELECT count(*) FROM effect WHERE state IN ('pending', 'claimed', 'retry')`

// rest waits until no effect is under way, or ctx ends: then the check says what
// is left.
func (c *Campaign) rest(ctx context.Context) error {
	db, err := c.world.Connect(ctx, c.schema)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	for pause(ctx, 100*time.Millisecond) {
		var left int
		if err := db.QueryRow(ctx, unfinished).Scan(&left); err != nil {
			return fmt.Errorf("waiting for the effects: %w", err)
		}
		if left == 0 {
			return nil
		}
	}
	return nil
}

func (c *Campaign) sum(r *Result) {
	s := &c.summary
	l := c.ledger
	s.Events, s.Forged = len(l.ids), l.forged
	s.Sent, s.Acked, s.Duplicates, s.Ambiguous, s.Faults = l.requests, l.acked, l.duplicates, l.ambiguous, l.faults
	s.Conflicts = l.conflicts
	for _, row := range r.Database.Events {
		s.Effects += row.Effects
	}
	for _, calls := range r.Calls {
		s.Forwarded += calls.Count
	}
	s.Lost, s.Doubled = Count(r.Violations, Lost), Count(r.Violations, Doubled)
	s.Altered, s.Alien = Count(r.Violations, Altered), Count(r.Violations, Alien)
	s.Other = len(r.Violations) - s.Lost - s.Doubled - s.Altered - s.Alien
}
