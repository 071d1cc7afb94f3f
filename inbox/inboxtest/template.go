package inboxtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/migrations"
)

// migratedSchema is the name of the schema in the database of each test.
const migratedSchema = "oncegate_test"

// Schema is a schema with all migrations of [migrations.Up], in a new database that is dropped when the test has passed.
// After a failure the database is kept, and its name is logged.
//
// The database is a copy of a template, because running the migrations for each test takes eight times as long. All
// test programs share the template of a server. A change of the migrations or of a dependency makes another one.
func Schema(tb testing.TB) (address, schema string) {
	tb.Helper()
	server := URL(tb)
	name := uniqueName()
	if err := copyTemplate(tb.Context(), server, name); err != nil {
		tb.Fatalf("making database %s: %v", name, err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("kept for inspection: schema %s of database %s", migratedSchema, name)
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), 30*time.Second)
		defer cancel()
		if err := onServer(ctx, server, func(conn *pgx.Conn) error { return command(ctx, conn, "DROP DATABASE "+name+" WITH (FORCE)") }); err != nil {
			tb.Errorf("dropping database %s: %v", name, err)
		}
	})
	return database(server, name), migratedSchema
}

// template is the name of the database that tests copy. A program looks for it once.
var template = struct {
	sync.Mutex
	byServer map[string]string
}{byServer: map[string]string{}}

func copyTemplate(ctx context.Context, server, name string) error {
	return onServer(ctx, server, func(conn *pgx.Conn) error {
		from, err := templateOf(ctx, conn, server)
		if err != nil {
			return err
		}
		return command(ctx, conn, "CREATE DATABASE "+name+" TEMPLATE "+from)
	})
}

// templateOf returns the template of a server, and makes it if it is missing. The flag of a template is set at the end, so
// that a half-made one is made again.
func templateOf(ctx context.Context, conn *pgx.Conn, server string) (name string, err error) {
	template.Lock()
	defer template.Unlock()
	if name = template.byServer[server]; name != "" {
		return name, nil
	}
	sum, err := digest()
	if err != nil {
		return "", err
	}
	name = fmt.Sprintf("oncegate_template_%x", sum[:8])
	// Programs run at the same time. The lock ends with the connection.
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", name); err != nil {
		return "", err
	}
	var made bool
	if err := conn.QueryRow(ctx, "SELECT coalesce((SELECT datistemplate FROM pg_database WHERE datname = $1), false)", name).Scan(&made); err != nil {
		return "", err
	}
	if !made {
		if err := command(ctx, conn, "DROP DATABASE IF EXISTS "+name); err != nil {
			return "", err
		}
		if err := command(ctx, conn, "CREATE DATABASE "+name); err != nil {
			return "", err
		}
		if err := migrations.Up(ctx, database(server, name), migratedSchema); err != nil {
			return "", fmt.Errorf("migrating: %w", err)
		}
		if err := command(ctx, conn, "ALTER DATABASE "+name+" IS_TEMPLATE true"); err != nil {
			return "", err
		}
	}
	template.byServer[server] = name
	_, err = conn.Exec(ctx, "SELECT pg_advisory_unlock_all()")
	return name, err
}

// digest returns a digest of the files of package migrations and of go.mod, which pins River and so River's migrations.
// It finds them from the working directory: go test runs a test program in the directory of its package.
func digest() (sum [sha256.Size]byte, err error) {
	root, err := os.Getwd()
	if err != nil {
		return sum, err
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "migrations", "sql")); err == nil {
			break
		}
		if root == filepath.Dir(root) {
			return sum, errors.New("no directory migrations/sql above the test")
		}
		root = filepath.Dir(root)
	}
	files := []string{filepath.Join(root, "go.mod")}
	for _, pattern := range []string{"*.go", "*/*.sql"} {
		found, err := filepath.Glob(filepath.Join(root, "migrations", pattern))
		if err != nil {
			return sum, err
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	all := sha256.New()
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return sum, err
		}
		fmt.Fprintf(all, "%d %s", len(content), content)
	}
	return [sha256.Size]byte(all.Sum(nil)), nil
}

// database returns the address of another database of a server.
func database(server, name string) string {
	u, err := url.Parse(server)
	if err != nil {
		return server
	}
	u.Path = "/" + name
	return u.String()
}

// servers has the connections of this program to each server, in which databases are made and dropped. A connection costs the server
// about as much as dropping a database, so tests share them.
var servers sync.Map

func onServer(ctx context.Context, server string, do func(conn *pgx.Conn) error) error {
	pool, ok := servers.Load(server)
	if !ok {
		cfg, err := pgxpool.ParseConfig(server)
		if err != nil {
			return err
		}
		cfg.MaxConnIdleTime = 5 * time.Second
		made, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), cfg)
		if err != nil {
			return err
		}
		if pool, ok = servers.LoadOrStore(server, made); ok {
			made.Close()
		}
	}
	conn, err := pool.(*pgxpool.Pool).Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err = do(conn.Conn()); err != nil {
		_ = conn.Conn().Close(context.WithoutCancel(ctx)) // it may hold the lock of the template
	}
	return err
}

func command(ctx context.Context, conn *pgx.Conn, sql string) error {
	_, err := conn.Exec(ctx, sql)
	return err
}
