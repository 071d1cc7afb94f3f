// Package migrations makes and checks the schema. [Up] brings a schema to the version of this
// program, and [New] makes a [Migrator] that can do more; [Validate] says whether this program may
// run on a schema as it is, and [Read] says what it is. oncegate.Config.Migrate does what Up does.
//
// Oncegate's own tables are made by golang-migrate files, River's by River's migrator at a pinned
// version, both in one command, on one connection and under one lock.
//
// A file and the version that it makes are committed by one transaction, so that a
// connection that is lost anywhere leaves the schema at one version or the next. What
// PostgreSQL does not do in a transaction is done so that it can be begun again.
package migrations

import (
	"context"
	"embed"
)

//go:embed sql/*.sql
var files embed.FS

//go:generate go run ./internal/digests

// Up brings the schema to the version this binary needs, creating it if it is
// missing. See [Migrator.Up].
func Up(ctx context.Context, url, schema string) error {
	m, err := New(Config{URL: url, Schema: schema})
	if err != nil {
		return err
	}
	return m.Up(ctx)
}

// Down takes everything away, River's tables included; the schema itself stays.
// All data is lost.
func Down(ctx context.Context, url, schema string) error {
	m, err := New(Config{URL: url, Schema: schema})
	if err != nil {
		return err
	}
	return m.DownAll(ctx)
}
