package migrations

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Add returns a Config with additional migrations after those of the program: pairs of an up and a
// down file.
func (c Config) Add(pairs ...[2]string) Config {
	all := fstest.MapFS{}
	names, err := fs.Glob(files, "sql/*.sql")
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		content, err := files.ReadFile(name)
		if err != nil {
			panic(err)
		}
		all[name] = &fstest.MapFile{Data: content}
	}
	c.version = Version
	for _, pair := range pairs {
		c.version++
		all[fileName(c.version, "up")] = &fstest.MapFile{Data: []byte(pair[0])}
		all[fileName(c.version, "down")] = &fstest.MapFile{Data: []byte(pair[1])}
	}
	c.files = maps.Clone(all)
	return c
}

// To returns a Config with which Up ends at an earlier version.
func (c Config) To(version int) Config {
	c.files, c.version = files, version
	return c
}

// Dial returns a Config with which the migrator connects through dial.
func (c Config) Dial(dial pgconn.DialFunc) Config {
	c.dial = dial
	return c
}

// Oldest returns what a file states about the programs that may run on it, and whether it runs
// outside a transaction.
func Oldest(content string) (oldest int, outside bool, err error) {
	f, err := parseFile(content)
	return f.oldest, f.outside, err
}

func fileName(version int, direction string) string {
	return fmt.Sprintf("sql/%06d_test.%s.sql", version, direction)
}

// Catalog returns all objects in the schema of the pool, one per line.
func Catalog(ctx context.Context, pool *pgxpool.Pool) (string, error) {
	lines, err := readLines(ctx, pool)
	return strings.Join(lines, "\n"), err
}
