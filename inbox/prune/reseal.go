package prune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/archive"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/sleep"
)

// ResealConfig configures [Reseal]. Pool and Keyring are required.
type ResealConfig struct {
	Pool    *pgxpool.Pool
	Keyring *seal.Keyring

	// Archive is resealed too; nil leaves objects, if there are any, as they are.
	Archive *archive.Archive

	// Pause is the rest between two batches, so that the walk leaves the database
	// to deliveries. It defaults to none.
	Pause time.Duration

	// Progress, if set, is called after every batch.
	Progress func(ResealProgress)
}

// ResealProgress is how far [Reseal] is.
type ResealProgress struct {
	// Table is the current table; Looked is how many of its rows were read.
	Table  string `json:"table"`
	Looked int64  `json:"looked"`

	// Resealed counts values that are under the active key now; Unreadable counts values under a lost key, which were
	// left unchanged. Both count all tables.
	Resealed   int64 `json:"resealed"`
	Unreadable int64 `json:"unreadable"`

	// MissingKeys are the ids of the keys that unreadable values would need, in no
	// order. A value that is damaged needs none.
	MissingKeys []int32 `json:"missing_keys,omitempty"`
}

// A page is bounded in rows, and a batch that is sealed in one transaction in bytes.
const (
	resealRows  = 500
	resealBytes = 4 << 20
)

// Reseal seals everything that is sealed with another key, or still plain, with the active key, hashes labels that are
// still plain, and replaces hashes of content that were stored without a secret by their HMACs. It uses small transactions, and
// deliveries may continue. You may stop and restart it, because it skips values under the active key. If everything was readable, you
// may remove the other keys at its end.
func Reseal(ctx context.Context, cfg ResealConfig) (ResealProgress, error) {
	var p ResealProgress
	if cfg.Keyring.Ring() == nil {
		return p, errors.New("resealing: there is no keyring")
	}
	for i := range shelves {
		s := &shelves[i]
		classes := []string{""}
		if s.byClass {
			rows, err := cfg.Pool.Query(ctx, bodyClasses)
			if err != nil {
				return p, fmt.Errorf("resealing %s: %w", s.table, err)
			}
			if classes, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
				return p, fmt.Errorf("resealing %s: %w", s.table, err)
			}
		}
		p.Table, p.Looked = s.table, 0
		for _, class := range classes {
			if err := cfg.walk(ctx, s, class, &p); err != nil {
				return p, fmt.Errorf("resealing %s: %w", s.table, err)
			}
		}
	}
	if err := cfg.resealArchive(ctx, &p); err != nil {
		return p, fmt.Errorf("resealing the archive: %w", err)
	}
	if err := cfg.hashLabels(ctx, &p); err != nil {
		return p, fmt.Errorf("hashing labels: %w", err)
	}
	for i := range hashedTables {
		if err := cfg.keyHashes(ctx, &hashedTables[i], &p); err != nil {
			return p, fmt.Errorf("keying the hashes of %s: %w", hashedTables[i].table, err)
		}
	}
	if err := cfg.keyCalls(ctx, &p); err != nil {
		return p, fmt.Errorf("keying the hashes of recent_call: %w", err)
	}
	return p, nil
}

// resealArchive seals the lines of the archive again.
func (cfg *ResealConfig) resealArchive(ctx context.Context, p *ResealProgress) error {
	p.Table, p.Looked = "archive_object", 0
	before := *p
	_, err := archiveOf(cfg.Archive, cfg.Pool).Reseal(ctx, cfg.Keyring, func(done archive.Resealed) {
		p.Looked++
		p.Resealed, p.Unreadable = before.Resealed+done.Lines, before.Unreadable+done.Unreadable
		for _, id := range done.MissingKeys {
			if !slices.Contains(p.MissingKeys, id) {
				p.MissingKeys = append(slices.Clip(p.MissingKeys), id)
			}
		}
		if cfg.Progress != nil {
			cfg.Progress(*p)
		}
	})
	return err
}

type resealRow struct {
	row  inbox.ID
	item int64
	due  bool
	size int64
}

// walk reseals one shelf, page by page.
func (cfg *ResealConfig) walk(ctx context.Context, s *shelf, class string, p *ResealProgress) error {
	// The zero ID is stored as NULL, so the walk begins after the smallest other one.
	after := resealRow{row: inbox.ID{15: 1}}
	for {
		active := cfg.Keyring.Ring().Active().ID
		rows, err := cfg.Pool.Query(ctx, s.page, class, after.row, after.item, resealRows, active)
		if err != nil {
			return err
		}
		page, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (row resealRow, err error) {
			err = r.Scan(&row.row, &row.item, &row.due, &row.size)
			return row, err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		var batch []resealRow
		bytes := int64(0)
		for i, row := range page {
			after = row
			p.Looked++
			if row.due {
				batch, bytes = append(batch, row), bytes+row.size
			}
			if len(batch) > 0 && (bytes >= resealBytes || i == len(page)-1) {
				if err := cfg.reseal(ctx, s, class, batch, p); err != nil {
					return err
				}
				batch, bytes = nil, 0
			}
		}
		if cfg.Progress != nil {
			cfg.Progress(*p)
		}
		if err := sleep.For(ctx, cfg.Pause); err != nil {
			return err
		}
	}
}

// reseal seals one batch again. It leaves a row that another transaction has locked, or that has changed meanwhile,
// for the next walk.
func (cfg *ResealConfig) reseal(ctx context.Context, s *shelf, class string, batch []resealRow, p *ResealProgress) error {
	ring := cfg.Keyring.Ring()
	ids, items := make([]inbox.ID, len(batch)), make([]int64, len(batch))
	for i, row := range batch {
		ids[i], items[i] = row.row, row.item
	}
	return pgx.BeginFunc(ctx, cfg.Pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, s.read, ids, items, class)
		if err != nil {
			return err
		}
		var (
			out     []resealed
			lost    int64
			missing []int32
		)
		for rows.Next() {
			var (
				id, at inbox.ID
				item   int64
				atItem int64
				keyID  *int32
				values [2][]byte
			)
			if err := rows.Scan(&id, &item, &at, &atItem, &keyID, &values[0], &values[1]); err != nil {
				return err
			}
			var key *int32
			readable := true
			for i, column := range s.columns {
				place := seal.Place{Table: s.table, Column: column, Row: at, Item: atItem}
				plain, err := cfg.Keyring.Open(place, keyID, values[i])
				if readable = readable && err == nil; !readable {
					lost++
					if _, id := inbox.UnopenedReason(err); id != 0 {
						missing = append(missing, id)
					}
					break
				}
				values[i], key = ring.Seal(place, plain)
			}
			if !readable {
				continue
			}
			out = append(out, resealed{row: id, item: item, keyID: key, one: values[0], two: values[1]})
		}
		if err := rows.Err(); err != nil {
			return err
		}
		if len(out) > 0 {
			if _, err := tx.Exec(ctx, s.write, append(resealedColumns.Args(out), class)...); err != nil {
				return err
			}
		}
		p.Resealed, p.Unreadable = p.Resealed+int64(len(out)), p.Unreadable+lost
		for _, id := range missing {
			if !slices.Contains(p.MissingKeys, id) {
				p.MissingKeys = append(slices.Clip(p.MissingKeys), id)
			}
		}
		return nil
	})
}

// KeyUsage is how many values are sealed with one key; Key 0 counts plain values.
type KeyUsage struct {
	Table  string `json:"table"`
	Column string `json:"column"`
	Key    int32  `json:"key"`
	Values int64  `json:"values"`
}

// KeyUsages counts the values by sealing key.
func KeyUsages(ctx context.Context, pool *pgxpool.Pool) ([]KeyUsage, error) {
	rows, err := pool.Query(ctx, countKeys)
	if err != nil {
		return nil, fmt.Errorf("counting what is under which key: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[KeyUsage])
	if err != nil {
		return nil, fmt.Errorf("counting what is under which key: %w", err)
	}
	return out, nil
}
