package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/move"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/migrations"
)

// Registered is what a database knows about sources.
type Registered struct {
	// Names has the names of all sources that were ever registered.
	Names map[string]bool

	// Moves has those of them that move to or from another database, or have moved.
	Moves map[string]move.Residence
}

// Has reports whether the events and keys of a source are in the database. It is false for a source that has left, or that has not arrived.
func (r *Registered) Has(source string) bool {
	moved, ok := r.Moves[source]
	return r.Names[source] && (!ok || moved.Here())
}

// RegisteredSources returns the sources that the database has registered. It returns none for a database without tables.
func RegisteredSources(ctx context.Context, settings *config.Config) (*Registered, error) {
	pool, err := openOne(ctx, settings)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	status, err := migrations.Read(ctx, pool)
	if err != nil {
		return nil, err
	}
	out := &Registered{Names: map[string]bool{}}
	if status.Current == 0 {
		return out, nil
	}
	found, err := registry.Read(ctx, pool)
	if err != nil {
		return nil, err
	}
	for name := range found.Sources {
		out.Names[name] = true
	}
	out.Moves, err = move.Residences(ctx, pool)
	return out, err
}

// Reside tells a whole configuration where the sources live that have moved, and returns those of them whose home is another one than the
// configuration says.
func Reside(whole *config.Config, known map[string]*Registered) (moved []*config.Source) {
	for _, s := range whole.Sources {
		configured := whole.HomeOf(s.Name)
		home, left := Residence(configured, append([]string{s.Name}, s.Previous.Names...), known)
		if home != configured {
			moved = append(moved, s)
		}
		if home != configured || left != nil {
			whole.Reside(s.Name, home, left)
		}
	}
	return moved
}

// Residence returns the database in which a source with one of the names lives, and those that it has left. home is the one of the
// configuration, and sources has what each database knows, without those that do not answer. What the databases say about a move counts
// more than the configuration.
func Residence(home string, names []string, sources map[string]*Registered) (now string, left []string) {
	moves := map[string]move.Residence{}
	for database, registered := range sources {
		for _, name := range names {
			if moved, ok := registered.Moves[name]; ok {
				moves[database] = moved
			}
		}
	}
	for range sources { // a source may have moved more than once
		if !moves[home].Left() {
			break
		}
		home = moves[home].Other
	}
	if at := sources[home]; at == nil || !slices.ContainsFunc(names, at.Has) {
		for database, moved := range moves {
			if !moved.Leaves && moved.Here() {
				home = database // the one that it left does not answer
			}
		}
	}
	for database, moved := range moves {
		if database != home && moved.Left() {
			left = append(left, database)
		}
	}
	slices.Sort(left)
	return home, left
}

// openOne opens a pool with one connection, for reads before the process opens its own pools.
func openOne(ctx context.Context, settings *config.Config) (*pgxpool.Pool, error) {
	var guard session.Guard
	return session.OpenPool(ctx, settings.Database.URL, settings.Database.Schema, session.PoolAdmin, 1, session.GuardedBy(&guard))
}

// ShareSecret gives the database of a part the installation's secret of the first database, if it has none yet. Both need tables.
func ShareSecret(ctx context.Context, first, other *config.Config) error {
	keys, err := other.Seal.Open(nil)
	if err != nil {
		return fmt.Errorf("opening seal.keyring: %w", err)
	}
	if keys == nil {
		return nil
	}
	var pools [2]*pgxpool.Pool
	for i, settings := range []*config.Config{first, other} {
		if pools[i], err = openOne(ctx, settings); err != nil {
			return err
		}
		defer pools[i].Close()
	}
	if err := inbox.ShareInstallationSecret(ctx, pools[0], pools[1], keys); err != nil {
		return fmt.Errorf("sharing the secret of the installation with the database %s: %w", other.Database.Name, err)
	}
	return nil
}
