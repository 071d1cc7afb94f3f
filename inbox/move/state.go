package move

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Residence says in which way a database has a source that moves or has moved.
type Residence struct {
	// Source is the name of the source.
	Source string

	// Leaves says that the source goes to the database Other. Otherwise it comes from there.
	Leaves bool
	Other  string

	// Step is how far the move is. [StepClosed] is of the database that the source leaves, and [StepOpen] of the other one.
	Step Step

	// Began is when the move began. By and Reason are who moves it, and why.
	Began      time.Time
	By, Reason string
}

// Here reports whether the database takes the deliveries of the source.
func (r Residence) Here() bool {
	if r.Leaves {
		return r.Step == StepCopying
	}
	return r.Step != StepCopying
}

// Left reports whether the source lives in the database Other.
func (r Residence) Left() bool { return r.Leaves && r.Step != StepCopying }

const readResidences = `
SELECT s.name, m.direction = 'out', m.other, m.state, m.began_at, m.actor, m.reason
FROM source_move m JOIN source s ON s.id = m.source_id
ORDER BY s.name`

// Residences returns the sources of the database that move or have moved, by name.
func Residences(ctx context.Context, db row.Querier) (map[string]Residence, error) {
	rows, err := db.Query(ctx, readResidences)
	if err != nil {
		return nil, fmt.Errorf("reading which sources move: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(from pgx.CollectableRow) (r Residence, err error) {
		err = from.Scan(&r.Source, &r.Leaves, &r.Other, &r.Step, &r.Began, &r.By, &r.Reason)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading which sources move: %w", err)
	}
	out := make(map[string]Residence, len(all))
	for _, r := range all {
		out[r.Source] = r
	}
	return out, nil
}
