package read

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
)

// KeyStats says how old the keys are that recognise duplicates, and when effect keys expire.
type KeyStats struct {
	// ByAge is about how many keys of events there are, by the names of [KeyAges].
	ByAge map[string]float64

	// ByExpiry is how many effect keys there are, by the names of [KeyExpiries], among the
	// [MaxCountedEffects] that expire first.
	ByExpiry map[string]float64
}

// KeyAges are the classes of age: each key is counted in the first that it is not too old for.
func KeyAges() []string { return []string{"1h", "1d", "7d", "30d", "90d", "older"} }

// KeyExpiries are the classes of expiry: each key is counted in the first within which it expires.
func KeyExpiries() []string { return []string{"expired", "1h", "1d", "7d", "30d", "later"} }

// The index by expiry is read in its own order, and no further than the bound.
const readKeyExpiries = `
SELECT count(*) FILTER (WHERE expires_at < now()),
    count(*) FILTER (WHERE expires_at >= now() AND expires_at < now() + interval '1 hour'),
    count(*) FILTER (WHERE expires_at >= now() + interval '1 hour' AND expires_at < now() + interval '1 day'),
    count(*) FILTER (WHERE expires_at >= now() + interval '1 day' AND expires_at < now() + interval '7 days'),
    count(*) FILTER (WHERE expires_at >= now() + interval '7 days' AND expires_at < now() + interval '30 days'),
    count(*) FILTER (WHERE expires_at >= now() + interval '30 days')
FROM (SELECT expires_at FROM effect_key WHERE expires_at IS NOT NULL ORDER BY expires_at LIMIT $1) k`

// CountKeys reads the counts in one short transaction. To count all keys by age would walk a table that
// may have hundreds of millions of rows, so the planner is asked how many it expects, by its
// statistics: an event's id begins with its time.
func CountKeys(ctx context.Context, pool *pgxpool.Pool, now time.Time) (KeyStats, error) {
	s := KeyStats{ByAge: map[string]float64{}, ByExpiry: map[string]float64{}}
	err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, readByIndex); err != nil {
			return err
		}
		var counts [6]float64
		if err := tx.QueryRow(ctx, readKeyExpiries, MaxCountedEffects).Scan(&counts[0], &counts[1], &counts[2], &counts[3], &counts[4], &counts[5]); err != nil {
			return err
		}
		for i, name := range KeyExpiries() {
			s.ByExpiry[name] = counts[i]
		}
		day := 24 * time.Hour
		younger := "TRUE"
		for i, age := range []time.Duration{time.Hour, day, 7 * day, 30 * day, 90 * day, 0} {
			from := "TRUE"
			if age > 0 {
				from = "id >= '" + inbox.FirstID(now.Add(-age)).String() + "'"
			}
			rows, err := expectedEvents(ctx, tx, from+" AND "+younger)
			if err != nil {
				return err
			}
			s.ByAge[KeyAges()[i]] = rows
			younger = "id < '" + inbox.FirstID(now.Add(-age)).String() + "'"
		}
		return nil
	})
	if err != nil {
		return KeyStats{}, fmt.Errorf("counting keys: %w", err)
	}
	return s, nil
}

// expectedEvents asks the planner how many events fulfil the condition, which is made of our own ids
// alone. Nothing is read of the table.
func expectedEvents(ctx context.Context, tx pgx.Tx, condition string) (float64, error) {
	var text []byte
	if err := tx.QueryRow(ctx, `EXPLAIN (FORMAT JSON) SELECT FROM inbox_event WHERE `+condition).Scan(&text); err != nil {
		return 0, err
	}
	var plans []struct {
		Plan struct {
			Rows float64 `json:"Plan Rows"`
		}
	}
	if err := json.Unmarshal(text, &plans); err != nil || len(plans) != 1 {
		return 0, fmt.Errorf("the planner's answer cannot be read: %w", err)
	}
	return plans[0].Plan.Rows, nil
}
