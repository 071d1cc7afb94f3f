package read

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/seal"
)

// streamKey is the key of a stream as its row has it.
type streamKey struct {
	routeID int32
	hash    []byte
	label   place.Label
}

func (k *streamKey) open(keys *seal.Keyring) (key string, missing int32) {
	return k.label.Open(keys, k.routeID, k.hash)
}

// A route has a row for each definition that its order had, or one without a definition.
const readSalts = `
SELECT r.id, coalesce(s.key_name, s.name), coalesce(r.key_name, r.name), CASE WHEN d.salted THEN d.digest END, x.id, x.secret, x.key_id
FROM route r
JOIN source s ON s.id = r.source_id
LEFT JOIN order_definition d ON d.route_id = r.id
LEFT JOIN order_secret x ON x.id = d.secret_id
WHERE ($1::text = '' OR s.name = $1) AND ($2::text = '' OR r.name = $2)
ORDER BY r.id`

// keyed returns the hashes that a sequence key has, or may have had, in the routes that
// the filter takes: one for each definition that a route's order had. Both are nil if the
// filter names no key. It returns [seal.ErrLost] if they were made under a secret that
// cannot be read here.
func (l *Lister) keyed(ctx context.Context, f StreamFilter) (routes []int32, hashes [][]byte, err error) {
	if f.Key == "" {
		return nil, nil, nil
	}
	rows, err := l.pool.Query(ctx, readSalts, f.Source, f.Route)
	if err != nil {
		return nil, nil, err
	}
	routes, hashes = []int32{}, [][]byte{}
	var id int32
	var source, route string
	var salt, sealed []byte
	var secret inbox.ID
	var keyID *int32
	_, err = pgx.ForEachRow(rows, []any{&id, &source, &route, &salt, &secret, &sealed, &keyID}, func() error {
		series, err := inbox.OpenSeries(l.keys, salt, secret, sealed, keyID)
		if err != nil {
			return err
		}
		routes, hashes = append(routes, id), append(hashes, series.KeyHash(source, route, f.Key))
		return nil
	})
	return routes, hashes, err
}
