package oncegatetest

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/embedded"
	"github.com/oncegate/oncegate/internal/session"
)

// patience is how long Start and Wait wait.
const patience = time.Minute

// Inbox is an Inbox that runs for one test.
type Inbox struct {
	*oncegate.Inbox

	// DatabaseURL and Schema are where Oncegate's tables of this test are. The handlers may write into any schema of
	// the database.
	DatabaseURL, Schema string

	settings *config.Config
	pool     *pgxpool.Pool
	lister   *read.Lister
	now      func() time.Time
	made     time.Time // in the payloads: an event has the same body whenever it is delivered
}

// Start runs an Inbox until the test ends. attach attaches the handlers, and may be nil if there are none.
//
// The database is cfg.DatabaseURL, or else the one that the environment variable TEST_DATABASE_URL names; the user
// needs the right to create schemas in it. Start creates the tables. If cfg.Schema is empty, it makes a schema for this
// test alone, so that tests can run in parallel, and drops it at the end. If the test has failed, it keeps the schema and
// logs its name. Making the tables takes most of a second, so let subtests share an Inbox.
//
// Without cfg.Logger, warnings and errors go to the test's log.
func Start(tb testing.TB, cfg oncegate.Config, attach func(*oncegate.Inbox)) *Inbox {
	tb.Helper()
	cfg.DatabaseURL = cmp.Or(cfg.DatabaseURL, os.Getenv("TEST_DATABASE_URL"))
	if cfg.DatabaseURL == "" {
		tb.Fatal("oncegatetest: no database: set Config.DatabaseURL or TEST_DATABASE_URL to a PostgreSQL for tests, such as postgres://localhost/test")
	}
	if cfg.Schema == "" {
		cfg.Schema = "oncegate_test_" + strings.ToLower(rand.Text()[:16])
		tb.Cleanup(func() { dropSchema(tb, cfg.DatabaseURL, cfg.Schema) })
	}
	cfg.Migrate = true
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	og, err := oncegate.Open(tb.Context(), cfg)
	if err != nil {
		tb.Fatalf("oncegatetest: %v", err)
	}
	tb.Cleanup(func() { _ = og.Close() }) // Run returns the errors of the stop
	i := &Inbox{Inbox: og, DatabaseURL: cfg.DatabaseURL, Schema: cfg.Schema, settings: embedded.Settings(og), now: cfg.Now}
	if i.now == nil {
		i.now = time.Now
	}
	i.made = i.now()
	if i.pool, err = session.OpenPool(tb.Context(), cfg.DatabaseURL, cfg.Schema, session.PoolAdmin, 2); err != nil {
		tb.Fatalf("oncegatetest: %v", err)
	}
	tb.Cleanup(i.pool.Close)
	keys, err := i.settings.Seal.Open(i.now)
	if err != nil {
		tb.Fatalf("oncegatetest: %v", err)
	}
	i.lister = read.NewLister(i.pool).WithKeyring(keys)
	if attach != nil {
		attach(og)
	}
	i.run(tb)
	return i
}

// run runs the Inbox until the test ends, and has an error of Run fail the test.
func (i *Inbox) run(tb testing.TB) {
	tb.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(tb.Context()))
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }()
	tb.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			tb.Errorf("oncegatetest: Run: %v", err)
		}
	})
	select {
	case <-i.Started():
	case err := <-ended:
		ended <- nil
		tb.Fatalf("oncegatetest: Run: %v", err)
	case <-time.After(patience):
		tb.Fatalf("oncegatetest: the Inbox did not start within %s", patience)
	}
}

// dropSchema drops the schema of a test that has passed.
func dropSchema(tb testing.TB, url, schema string) {
	tb.Helper()
	if tb.Failed() {
		tb.Logf("oncegatetest: kept for inspection: schema %s", schema)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), patience)
	defer cancel()
	pool, err := session.OpenPool(ctx, url, schema, session.PoolAdmin, 1)
	if err != nil {
		tb.Errorf("oncegatetest: dropping schema %s: %v", schema, err)
		return
	}
	defer pool.Close()
	// IF EXISTS, because a wrong configuration ends the test before there is a schema.
	if _, err := pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE"); err != nil {
		tb.Errorf("oncegatetest: dropping schema %s: %v", schema, err)
	}
}
