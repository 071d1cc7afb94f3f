package oncegate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/config"
)

// Emission is an event of the program's own. All fields are required.
type Emission struct {
	// Source is the name of a source with Emit.
	Source string
	// EventID is unique within the source: the same again is a duplicate.
	EventID string
	// Type is what routes select by.
	Type string
	// Payload is JSON, of at most 64 MiB and at most as much as the source allows.
	Payload []byte
}

const emit = `SELECT %s.emit($1, $2, $3, $4::jsonb)`

// Emit records an event in a transaction of the program's own, on the same database: it
// exists if, and only if, tx is committed. Its effects follow within about a second, like those
// of a delivery. The user of tx needs EXECUTE on the function emit in Oncegate's schema, which
// its owner has.
//
// A source that is not open to it is refused before the database is asked; any other
// error is the database's, and ends tx.
func (i *Inbox) Emit(ctx context.Context, tx pgx.Tx, e Emission) error {
	open := func(s *config.Source) bool { return s.Emit && s.Name == e.Source }
	if !slices.ContainsFunc(i.settings.Sources, open) {
		return fmt.Errorf("emitting an event: source %q does not exist or is not open to it: set Emit at the source%s", e.Source, i.emitting())
	}
	schema := pgx.Identifier{i.settings.Database.Schema}.Sanitize()
	if _, err := tx.Exec(ctx, fmt.Sprintf(emit, schema), e.Source, e.EventID, e.Type, string(e.Payload)); err != nil {
		return fmt.Errorf("emitting an event to source %s: %w", e.Source, err)
	}
	return nil
}

// emitting names the sources that are open to Emit.
func (i *Inbox) emitting() string {
	var names []string
	for _, s := range i.settings.Sources {
		if s.Emit {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; open are " + strings.Join(names, ", ")
}
