// Package definition stores sources that operators define while the servers run, in addition to the sources in the configuration file.
//
// A row of the table source_definition is a source: what the file would have below its name, as JSON, with its secrets. It is sealed with
// the keyring. Every change increments the revision in the one row of source_definition_revision. The row's lock makes changes follow one
// another, so that a later revision always contains an earlier one. Every process that serves reads the revision each second, and reads
// its configuration again if it has changed.
package definition

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
)

// Definition is a source that the database has.
type Definition struct {
	// Name is the name of the source.
	Name string
	// Content is what the configuration file would have below the name, as JSON. It contains secrets.
	Content []byte
	// Enabled says that the source takes deliveries.
	Enabled bool
	// Revision is the revision in which the definition was changed last.
	Revision int64
	// CreatedAt and UpdatedAt are when the definition was made and changed, by the database's clock.
	CreatedAt, UpdatedAt time.Time
	// By and Reason are who changed it last, and why.
	By, Reason string
}

// Set is all definitions at one moment.
type Set struct {
	// Revision is 0 if there never was a definition.
	Revision int64
	// Definitions are ordered by name.
	Definitions []Definition
}

// Decision is who changes a definition, and why. Both fields are required.
type Decision struct{ Actor, Reason string }

// ErrUnsealed means that there is no keyring. Definitions contain secrets, which are never stored in plain.
var ErrUnsealed = errors.New("a source in the database needs a keyring, because its secrets are sealed: set seal.keyring and run `oncegate keys rotate`")

// stored is a row.
type stored struct {
	Definition
	id    inbox.ID
	keyID *int32
}

const (
	readRevision = `SELECT revision FROM source_definition_revision`

	readDefinitions = `
SELECT id, name, content, key_id, enabled, revision, created_at, updated_at, actor, reason FROM source_definition ORDER BY name`

	readDefinition = `
SELECT id, name, content, key_id, enabled, revision, created_at, updated_at, actor, reason FROM source_definition WHERE name = $1`
)

func scan(from pgx.CollectableRow) (d stored, err error) {
	err = from.Scan(&d.id, &d.Name, &d.Content, &d.keyID, &d.Enabled, &d.Revision, &d.CreatedAt, &d.UpdatedAt, &d.By, &d.Reason)
	return d, err
}

func place(id inbox.ID) seal.Place {
	return seal.Place{Table: "source_definition", Column: "content", Row: id}
}

func (d *stored) open(keys *seal.Keyring) error {
	content, err := keys.Open(place(d.id), d.keyID, d.Content)
	if err != nil {
		return fmt.Errorf("opening the definition of source %s: %w", d.Name, err)
	}
	d.Content = content
	return nil
}

// Revision returns the revision of the definitions. It is 0 if there never was one, or if the schema has no tables yet.
func Revision(ctx context.Context, db row.Querier) (revision int64, err error) {
	rows, err := db.Query(ctx, readRevision)
	if err == nil {
		revision, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
	}
	var problem *pgconn.PgError
	if errors.As(err, &problem) && problem.Code == "42P01" { // undefined_table
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading the revision of the sources: %w", err)
	}
	return revision, nil
}

// Read returns all definitions. It fails if one cannot be opened, because a process that leaves a source out would refuse its events.
func Read(ctx context.Context, pool *pgxpool.Pool, keys *seal.Keyring) (out Set, err error) {
	if out.Revision, err = Revision(ctx, pool); err != nil || out.Revision == 0 {
		return out, err
	}
	// One snapshot, so that the revision belongs to the definitions.
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if out.Revision, err = Revision(ctx, tx); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, readDefinitions)
		if err != nil {
			return err
		}
		all, err := pgx.CollectRows(rows, scan)
		for i := range all {
			if err := all[i].open(keys); err != nil {
				return err
			}
			out.Definitions = append(out.Definitions, all[i].Definition)
		}
		return err
	})
	if err != nil {
		return Set{}, fmt.Errorf("reading the sources of the database: %w", err)
	}
	return out, nil
}

// Find returns the definition of a source, or nil if the database has none.
func Find(ctx context.Context, db row.Querier, keys *seal.Keyring, name string) (*Definition, error) {
	found, err := find(ctx, db, keys, name)
	if err != nil || found == nil {
		return nil, err
	}
	return &found.Definition, nil
}

func find(ctx context.Context, db row.Querier, keys *seal.Keyring, name string) (*stored, error) {
	rows, err := db.Query(ctx, readDefinition, name)
	if err != nil {
		return nil, fmt.Errorf("reading the definition of source %s: %w", name, err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, scan)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the definition of source %s: %w", name, err)
	}
	return &found, found.open(keys)
}

// The lock makes changes follow one another. It comes first, so that a change sees all that were made before.
const lockRevision = `SELECT revision FROM source_definition_revision FOR UPDATE`

const (
	writeRevision = `UPDATE source_definition_revision SET revision = $1`

	// Only a holder of the lock inserts, so a conflict is an error.
	insertDefinition = `
INSERT INTO source_definition (id, name, content, key_id, enabled, revision, actor, reason) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
RETURNING created_at, updated_at`

	updateDefinition = `
UPDATE source_definition SET content = $3, key_id = $4, enabled = $5, revision = $6, actor = $7, reason = $8, updated_at = now()
WHERE id = $1 AND name = $2
RETURNING created_at, updated_at`
)

// Change changes the definition of one source. edit gets the definition that is in force, or nil if there is none, and returns the one that
// should be. Change returns the error of edit, and changes nothing if both are equal: the definition in force is then the answer. While edit
// runs, no other change can be made.
func Change(ctx context.Context, pool *pgxpool.Pool, keys *seal.Keyring, name string, why Decision, edit func(now *Definition) (Definition, error)) (out Definition, changed bool, err error) {
	if err := inbox.CheckExplanation(why.Actor, why.Reason); err != nil {
		return out, false, err
	}
	ring := keys.Ring()
	if ring == nil {
		return out, false, ErrUnsealed
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var revision int64
		if err := tx.QueryRow(ctx, lockRevision).Scan(&revision); err != nil {
			return fmt.Errorf("locking the sources of the database: %w", err)
		}
		before, err := find(ctx, tx, keys, name)
		if err != nil {
			return err
		}
		var now *Definition
		if before != nil {
			now = &before.Definition
		}
		next, err := edit(now)
		if err != nil {
			return err
		}
		if now != nil && now.Enabled == next.Enabled && bytes.Equal(now.Content, next.Content) {
			out = *now
			return nil
		}
		changed = true
		out = Definition{Name: name, Content: next.Content, Enabled: next.Enabled, Revision: revision + 1, By: why.Actor, Reason: why.Reason}
		return write(ctx, tx, ring, before, &out)
	})
	return out, changed, err
}

// write stores a changed definition with its revision and its entry of the audit, which has no content.
func write(ctx context.Context, tx pgx.Tx, ring *seal.Ring, before *stored, d *Definition) error {
	statement, id, action := insertDefinition, inbox.NewToken(), inbox.AuditSourceCreate
	type state struct {
		Enabled  bool  `json:"enabled"`
		Revision int64 `json:"revision"`
	}
	var was any
	if before != nil {
		statement, id, action = updateDefinition, before.id, inbox.AuditSourceUpdate
		was = state{before.Enabled, before.Revision}
		if before.Enabled != d.Enabled {
			action = inbox.AuditSourceDisable
			if d.Enabled {
				action = inbox.AuditSourceEnable
			}
		}
	}
	sealed, keyID := ring.Seal(place(id), d.Content)
	if err := tx.QueryRow(ctx, statement, id, d.Name, sealed, keyID, d.Enabled, d.Revision, d.By, d.Reason).Scan(&d.CreatedAt, &d.UpdatedAt); err != nil {
		return fmt.Errorf("writing the definition of source %s: %w", d.Name, err)
	}
	if _, err := tx.Exec(ctx, writeRevision, d.Revision); err != nil {
		return fmt.Errorf("writing the revision of the sources: %w", err)
	}
	return inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
		At: d.UpdatedAt, Actor: d.By, Action: action, Object: "source/" + d.Name, Reason: d.Reason, Before: was, After: state{d.Enabled, d.Revision},
	})
}

// The processes that receive and have announced a revision, each by its newest row: a process that has just read its configuration again
// has two. A process that never announces one takes no sources of the database.
const countBehind = `
SELECT count(*), count(*) FILTER (WHERE newest.definitions < $1) FROM (
    SELECT DISTINCT ON (n.name) n.definitions FROM node n
    WHERE n.definitions IS NOT NULL AND 'receive' = ANY (n.roles) AND n.heartbeat > now() - $2::bigint * interval '1 microsecond'
    ORDER BY n.name, n.started_at DESC) newest`

// Behind returns how many live processes receive deliveries for the sources of the database, and how many of them have not taken over the
// revision yet. silence is how long a process may be silent to count as live.
func Behind(ctx context.Context, pool *pgxpool.Pool, revision int64, silence time.Duration) (processes, behind int64, err error) {
	if err := pool.QueryRow(ctx, countBehind, revision, silence.Microseconds()).Scan(&processes, &behind); err != nil {
		return 0, 0, fmt.Errorf("reading which processes serve the sources: %w", err)
	}
	return processes, behind, nil
}
