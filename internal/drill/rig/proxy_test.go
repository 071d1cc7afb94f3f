package rig_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// A connection that has committed before says COMMIT by the name of a prepared statement.
func TestProxyCutsWhoHasCommittedBefore(t *testing.T) {
	t.Parallel()
	for _, where := range []rig.Cut{rig.CutBefore, rig.CutAfter} {
		t.Run(string(where), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			url, _ := inboxtest.Schema(t)
			proxy, dsn, err := rig.StartProxy(url, "who is to be cut")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = proxy.Close() })
			cfg, err := pgx.ParseConfig(dsn)
			if err != nil {
				t.Fatal(err)
			}
			cfg.RuntimeParams["application_name"] = "who is to be cut"
			conn, err := pgx.ConnectConfig(ctx, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(ctx)
			commit := func() error {
				var b pgx.Batch
				b.Queue("BEGIN")
				b.Queue("SELECT 1")
				b.Queue("COMMIT")
				return conn.SendBatch(ctx, &b).Close()
			}
			for range 3 {
				if err := commit(); err != nil {
					t.Fatal(err)
				}
			}
			cut := proxy.CutNext(where, "who is to be cut")
			if err := commit(); err == nil {
				t.Error("it commits as if nothing were")
			}
			select {
			case <-cut:
			case <-time.After(20 * time.Second):
				t.Error("nothing was cut")
			}
		})
	}
}

// A statement is cut off before the server gets it, or when it has been carried out.
func TestProxyCutsAStatement(t *testing.T) {
	t.Parallel()
	for where, rows := range map[rig.Cut]int{rig.CutStatement: 1, rig.CutAnswer: 2} {
		t.Run(string(where), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			url, schema := inboxtest.Schema(t)
			const word = "INTO struck"
			proxy, dsn, err := rig.StartProxy(url, word)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = proxy.Close() })
			connect := func(dsn string) *pgx.Conn {
				cfg, err := pgx.ParseConfig(dsn)
				if err != nil {
					t.Fatal(err)
				}
				cfg.RuntimeParams["search_path"] = schema
				conn, err := pgx.ConnectConfig(ctx, cfg)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.Close(ctx) })
				return conn
			}
			direct := connect(url)
			if _, err := direct.Exec(ctx, `CREATE TABLE struck (n int)`); err != nil {
				t.Fatal(err)
			}
			conn := connect(dsn)
			insert := func() error {
				_, err := conn.Exec(ctx, `INSERT INTO struck VALUES ($1)`, 1)
				return err
			}
			if err := insert(); err != nil {
				t.Fatal(err)
			}
			cut := proxy.CutNext(where, word)
			if _, err := conn.Exec(ctx, `SELECT $1::int`, 1); err != nil {
				t.Fatalf("another statement was cut: %v", err)
			}
			if err := insert(); err == nil {
				t.Error("it is answered as if nothing were")
			}
			select {
			case <-cut:
			case <-time.After(20 * time.Second):
				t.Error("nothing was cut")
			}
			var n int
			if err := direct.QueryRow(ctx, `SELECT count(*) FROM struck`).Scan(&n); err != nil || n != rows {
				t.Errorf("%d rows, %v; want %d", n, err, rows)
			}
		})
	}
}
