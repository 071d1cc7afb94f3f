package suppression

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// look is a question about an address in normal form and the target of a message.
type look struct{ normal, target string }

// Suppressed reports whether a message of the target to the address must not be sent. Questions that come at the same
// time share a statement. An error means that the answer is unknown, and nothing may be sent: it wraps [seal.ErrLost]
// if entries are hashed under a secret that this process cannot open.
func (s *Store) Suppressed(ctx context.Context, target, address string) (bool, error) {
	normal, err := Normalize(address)
	if err != nil {
		return false, err
	}
	found, err := s.looks.Do(ctx, look{normal, target})
	if err != nil {
		return false, fmt.Errorf("looking for a suppressed address: %w", err)
	}
	return found != nil, nil
}

// Check returns the entry that suppresses the address for the target, preferring the one for every target; nil if there
// is none.
func (s *Store) Check(ctx context.Context, target, address string) (*Row, error) {
	normal, err := Normalize(address)
	if err != nil {
		return nil, err
	}
	found, err := s.looks.Do(ctx, look{normal, target})
	if err != nil {
		return nil, fmt.Errorf("looking for a suppressed address: %w", err)
	}
	return found, nil
}

type digest struct {
	ask    int
	digest []byte
	target string
}

var digestColumns = row.ColumnsFrom(1,
	row.Int("ask", func(d *digest) int32 { return int32(d.ask) }),
	row.Bytes("digest", func(d *digest) []byte { return d.digest }),
	row.Text("target", func(d *digest) string { return d.target }),
)

// One index scan for each digest. The entry for every target comes first.
var findDigests = `
SELECT a.ask, x.id, x.address, x.key_id, x.digest, x.target, x.reason, x.source_event, x.created_at, x.expires_at
FROM unnest(` + digestColumns.Arrays() + `) AS a (` + digestColumns.Names() + `)
JOIN suppression x ON x.digest = a.digest AND x.target = ANY (ARRAY['', a.target])
WHERE x.expires_at IS NULL OR x.expires_at > now()
ORDER BY a.ask, x.target`

// A secret that cannot be opened matters only if an entry is hashed under it.
const hasEntriesUnder = `SELECT EXISTS (SELECT FROM suppression WHERE secret_id = ANY ($1::uuid[]))`

func (s *Store) lookUp(ctx context.Context, asks []look) ([]*Row, error) {
	closed, why, err := s.learn(ctx, s.cfg.Pool)
	if err != nil {
		return nil, err
	}
	if len(closed) > 0 {
		var used bool
		if err := s.cfg.Pool.QueryRow(ctx, hasEntriesUnder, closed).Scan(&used); err != nil {
			return nil, err
		}
		if used {
			return nil, errClosed(why)
		}
	}
	var digests []digest
	for i, ask := range asks {
		for _, d := range s.digests(ask.normal) {
			digests = append(digests, digest{i, d, ask.target})
		}
	}
	rows, err := s.cfg.Pool.Query(ctx, findDigests, digestColumns.Args(digests)...)
	if err != nil {
		return nil, err
	}
	out := make([]*Row, len(asks))
	var ask int32
	var stored storedRow
	_, err = pgx.ForEachRow(rows, append([]any{&ask}, stored.into()...), func() error {
		if out[ask] == nil {
			out[ask] = s.shown(&stored)
			out[ask].Address = asks[ask].normal
		}
		return nil
	})
	return out, err
}

// storedRow is a row that was read.
type storedRow struct {
	id              inbox.ID
	address, digest []byte
	keyID           *int32
	target          string
	reason          Reason
	event           *inbox.ID
	created         time.Time
	expires         *time.Time
}

func (r *storedRow) into() []any {
	return []any{&r.id, &r.address, &r.keyID, &r.digest, &r.target, &r.reason, &r.event, &r.created, &r.expires}
}
