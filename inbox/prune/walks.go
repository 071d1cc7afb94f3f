package prune

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Walk is the progress of prune in one table.
type Walk struct {
	// Name is the table, and what sets the walk apart from others in it.
	Name string `json:"name"`

	// BeganAt is when the walk began, and CompletedAt when it came to its end; nil while it has not.
	BeganAt     time.Time  `json:"began_at"`
	CompletedAt *time.Time `json:"completed_at,omitempty"`
}

const readWalks = `SELECT name, began_at, completed_at FROM prune_walk ORDER BY name LIMIT 1000`

// Walks returns the progress of prune, by table.
func Walks(ctx context.Context, pool *pgxpool.Pool) ([]Walk, error) {
	rows, err := pool.Query(ctx, readWalks)
	if err != nil {
		return nil, fmt.Errorf("reading how far prune has come: %w", err)
	}
	walks, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Walk])
	if err != nil {
		return nil, fmt.Errorf("reading how far prune has come: %w", err)
	}
	return walks, nil
}
