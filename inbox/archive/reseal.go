package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/seal"
)

// The next object with a line under another key than the active one.
const nextResealed = `
SELECT a.name FROM archive_object a
WHERE a.name > $1 AND a.state = 'stored' AND NOT a.key_ids <@ ARRAY[$2::int]
ORDER BY a.name
LIMIT 1`

// Resealed counts what [Archive.Reseal] did.
type Resealed struct {
	// Lines are now under the active key, and Unreadable lines are left under a key that is not in the keyring, or are damaged.
	Lines, Unreadable int64
	// MissingKeys are the keys that they would need.
	MissingKeys []int32
}

// Reseal seals the lines of all objects that are under another key, or plain, with the active key of the keyring. You may stop and
// restart it. done is called after each object.
func (a *Archive) Reseal(ctx context.Context, keys *seal.Keyring, done func(Resealed)) (out Resealed, err error) {
	if a == nil {
		return out, nil
	}
	for name := ""; ; {
		err := a.cfg.Pool.QueryRow(ctx, nextResealed, name, keys.Ring().Active().ID).Scan(&name)
		if errors.Is(err, pgx.ErrNoRows) {
			return out, nil
		}
		if err != nil {
			return out, fmt.Errorf("finding objects to reseal: %w", err)
		}
		if err := a.rewrite(ctx, name, func(lines []Line) ([]Line, bool, error) {
			changed := false
			for i := range lines {
				changed = lines[i].reseal(keys, &out) || changed
			}
			return lines, changed, nil
		}); err != nil {
			return out, err
		}
		done(out)
	}
}

// reseal seals a line with the active key, and blanks what could not be blanked before.
func (l *Line) reseal(keys *seal.Keyring, out *Resealed) bool {
	ring := keys.Ring()
	if l.KeyID != nil && *l.KeyID == ring.Active().ID {
		return false
	}
	headers, body, err := l.open(keys)
	if err != nil {
		out.Unreadable++
		if lost, ok := errors.AsType[*seal.LostError](err); ok && !slices.Contains(out.MissingKeys, lost.Key) {
			out.MissingKeys = append(out.MissingKeys, lost.Key)
		}
		return false
	}
	l.Headers, _ = ring.Seal(l.place("headers"), headers)
	l.Body, l.KeyID = ring.Seal(l.place("body"), body)
	_, _ = l.blank(keys)
	out.Lines++
	return true
}
