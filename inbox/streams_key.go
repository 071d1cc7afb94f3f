package inbox

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/seal"
)

// streamKey is the key of a stream as its row has it.
type streamKey struct {
	routeID int32
	hash    []byte
	label   label
}

func (k *streamKey) open(keys *seal.Keyring) (key string, missing int32) {
	return k.label.open(keys, k.routeID, k.hash)
}

// A route without definitions has one row, without a salt.
const readSalts = `
SELECT r.id, coalesce(s.key_name, s.name), coalesce(r.key_name, r.name), d.digest
FROM route r
JOIN source s ON s.id = r.source_id
LEFT JOIN order_definition d ON d.route_id = r.id AND d.salted
WHERE ($1::text = '' OR s.name = $1) AND ($2::text = '' OR r.name = $2)
ORDER BY r.id`

// keyed gives the hashes that a sequence key has, or may have had, in the routes that the
// filter takes: one for each definition that a route's order had. Both are nil if the
// filter names no key.
func (l *Lister) keyed(ctx context.Context, f StreamFilter) (routes []int32, hashes [][]byte, err error) {
	if f.Key == "" {
		return nil, nil, nil
	}
	rows, err := l.pool.Query(ctx, readSalts, f.Source, f.Route)
	if err != nil {
		return nil, nil, err
	}
	routes, hashes = []int32{}, [][]byte{}
	var id, last int32
	var source, route string
	var salt []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &source, &route, &salt}, func() error {
		if id != last {
			routes, hashes, last = append(routes, id), append(hashes, Series{}.KeyHash(source, route, f.Key)), id
		}
		if salt != nil {
			routes, hashes = append(routes, id), append(hashes, Series{Salt: salt}.KeyHash(source, route, f.Key))
		}
		return nil
	})
	return routes, hashes, err
}
