package oncegate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/config"
)

// Emission is an event that the program itself creates. All fields are required.
type Emission struct {
	// Source is the name of a source with Emit.
	Source string
	// EventID is unique within the source. An emission with the same EventID is a duplicate.
	EventID string
	// Type is the event type, by which routes select.
	Type string
	// Payload is JSON, of at most 64 MiB and at most the source's limit.
	Payload []byte
}

const emit = `SELECT %s.emit($1, $2, $3, $4::jsonb)`

// Emit records an event in a transaction of the program, on the same database: the event exists if,
// and only if, tx is committed. Its effects follow within about a second, as after a delivery.
// The database user of tx needs EXECUTE on the function emit in Oncegate's schema, which the
// function's owner has.
//
// Emit returns an error without a database query if the source does not exist or does not have Emit
// set. Any other error comes from the database and aborts tx.
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

// emitting names the sources that have Emit set, for an error message.
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
