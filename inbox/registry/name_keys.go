package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// keyHolder is a source of the database with the number of its keys.
type keyHolder struct {
	ID        int32
	Name      string
	Provider  string
	Providers []string // that it is known to have had before
	Keys      int      // up to maxCounted and one
}

// In the order of the index: without it, the planner may look for the rows of a source
// that has none any more by reading the whole table. A source that lives in another database holds nothing here.
const readKeyHolders = `
SELECT s.id, s.name, s.provider, s.providers,
    (SELECT count(*) FROM (SELECT FROM inbox_event e WHERE e.source_id = s.id ORDER BY e.event_id LIMIT $1) c)
FROM source s
WHERE NOT EXISTS (SELECT FROM source_move m WHERE m.source_id = s.id AND (m.direction = 'out') = (m.state <> 'copying'))
ORDER BY s.name`

func readHolders(ctx context.Context, db row.Batcher) (out []keyHolder, err error) {
	var b pgx.Batch
	b.Queue(readKeyHolders, row.MaxCounted+1).Query(func(rows pgx.Rows) (err error) {
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[keyHolder])
		return err
	})
	if err := db.SendBatch(ctx, &b).Close(); err != nil {
		return nil, fmt.Errorf("counting the keys of sources: %w", err)
	}
	return out, nil
}

// checkKeys refuses changes that would make old events new again: a new source of a
// provider, if a source of that provider has keys and is no longer configured, and
// another provider for the keys of a source. Either is accepted if the configuration
// says which it is.
func checkKeys(decided *decidedNames, sources []Source, holders []keyHolder) error {
	byID, gone := map[int32]keyHolder{}, map[int32]keyHolder{}
	for _, h := range holders {
		byID[h.ID], gone[h.ID] = h, h
	}
	for _, d := range decided.sources {
		delete(gone, d.row)
	}
	var errs []error
	for _, s := range sources {
		d := decided.sources[s.Name]
		if d.row == 0 && !s.Separate {
			errs = append(errs, checkNewSource(s, gone))
		}
		h, known := byID[d.row]
		if known && h.Keys > 0 && h.Provider != s.Provider && !slices.Contains(h.Providers, s.Provider) && !slices.Contains(s.PreviousNames, s.Name) {
			errs = append(errs, fmt.Errorf("%w: source %s is of provider %s, and %s was of provider %s and holds %s of its events: "+
				"if both name an event by the same id, write %s itself among its previous_names; if not, give it another name, or old events would be new again and new ones duplicates",
				ErrNames, s.Name, s.Provider, h.Name, h.Provider, countText(h.Keys, "key", "keys"), s.Name))
		}
	}
	return errors.Join(errs...)
}

func checkNewSource(s Source, gone map[int32]keyHolder) error {
	var holders []string
	example := ""
	for _, id := range slices.Sorted(maps.Keys(gone)) {
		if h := gone[id]; h.Provider == s.Provider && h.Keys > 0 {
			holders = append(holders, fmt.Sprintf("%s (%s)", h.Name, countText(h.Keys, "key", "keys")))
			example = h.Name
		}
	}
	if len(holders) == 0 {
		return nil
	}
	return fmt.Errorf("%w: source %s is new, and of the same provider the database knows %s, which is not configured any more: "+
		"write previous_names: [%s] at %s if it is that source, or its old events would be new again; previous_names: [] if it is not",
		ErrNames, s.Name, strings.Join(holders, ", "), example, s.Name)
}

// countText is a count that stops at [row.MaxCounted], for people.
func countText(n int, one, many string) string {
	switch {
	case n == 1:
		return "1 " + one
	case n > row.MaxCounted:
		return "10,000+ " + many
	}
	return fmt.Sprintf("%d %s", n, many)
}
