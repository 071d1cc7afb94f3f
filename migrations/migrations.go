// Package migrations creates, upgrades and checks the schema. [Up] brings a schema to the version
// of this program. [New] returns a [Migrator], which can do more. [Validate] reports whether this
// program may run on a schema, and [Read] reads the state of the schema. oncegate.Config.Migrate
// does the same as Up.
//
// Oncegate's own tables are created by golang-migrate files, and River's tables by River's migrator
// at a pinned version: both in one command, on one connection and under one lock.
//
// A single transaction commits a file together with its version, so that a lost connection always
// leaves the schema at one version or the next. Operations that PostgreSQL does not allow in a
// transaction can be repeated.
package migrations

import (
	"context"
	"embed"
)

//go:embed sql/*.sql
var files embed.FS

//go:generate go run ./internal/digests

// Up brings the schema to the version that this binary needs and creates it if it is missing. See
// [Migrator.Up].
func Up(ctx context.Context, url, schema string) error {
	m, err := New(Config{URL: url, Schema: schema})
	if err != nil {
		return err
	}
	return m.Up(ctx)
}

// Down drops all tables, including River's. The schema itself remains. All data is lost.
func Down(ctx context.Context, url, schema string) error {
	m, err := New(Config{URL: url, Schema: schema})
	if err != nil {
		return err
	}
	return m.DownAll(ctx)
}
