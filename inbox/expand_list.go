package inbox

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/sequence"
)

// expandChunk is how many items one transaction writes.
const expandChunk = 500

// The effect that expands is held by its lease, which goes on from here: a list
// may take longer than one.
const holdExpanding = `
UPDATE effect
SET lease_until = now() + $3::bigint * interval '1 microsecond', next_at = now() + $3::bigint * interval '1 microsecond'
WHERE id = $1 AND lease_token = $2 AND lease_until > now()
RETURNING id`

// An item that is there already was written by a run that did not end.
var insertItems = `
INSERT INTO effect (id, event_id, route_id, route_version, item, idempotency_key, rendered, rendered_key_id, job_id, state, next_at)
SELECT a.id, e.event_id, e.route_id, e.route_version, a.item, a.key, a.rendered, a.key_id, a.job_id, 'pending', now()
FROM unnest(` + itemColumns.Arrays() + `) AS a (` + itemColumns.Names() + `)
CROSS JOIN (SELECT event_id, route_id, route_version FROM effect WHERE id = $1) e
ON CONFLICT ON CONSTRAINT effect_event_route_item_key DO NOTHING`

// newItem is an effect that another one becomes.
type newItem struct {
	id       ID
	item     int32
	key      string
	rendered []byte
	keyID    *int32
	job      int64
}

// itemColumns stand behind the effect that becomes them.
var itemColumns = row.ColumnsFrom(2,
	row.UUID("id", func(i *newItem) ID { return i.id }),
	row.Int("item", func(i *newItem) int32 { return i.item }),
	row.Text("key", func(i *newItem) string { return i.key }),
	row.Bytes("rendered", func(i *newItem) []byte { return i.rendered }),
	row.Bigint("job_id", func(i *newItem) int64 { return i.job }),
	row.Int("key_id", func(i *newItem) *int32 { return i.keyID }),
)

// ItemKey is the idempotency key of one of the items that an effect became; they
// count from 1.
func ItemKey(claim *Claim, item int) string { return claim.Key + "/" + strconv.Itoa(item) }

// Expand writes an effect for each of n items, in chunks of their own
// transactions, each with its job. render gives what item i, from 1, will send. It
// may be repeated: what is written stays. It reports false if the claim is no
// longer the caller's.
func (e *Effects) Expand(ctx context.Context, claim *Claim, n int, render func(item int) ([]byte, error)) (bool, error) {
	for first := 1; first <= n; first += expandChunk {
		last := min(first+expandChunk-1, n)
		held, err := e.expandChunk(ctx, claim, first, last, render)
		if err != nil {
			return false, fmt.Errorf("expanding effect %s: %w", claim.Effect, err)
		}
		if !held {
			return false, nil
		}
	}
	return true, nil
}

func (e *Effects) expandChunk(ctx context.Context, claim *Claim, first, last int, render func(int) ([]byte, error)) (held bool, err error) {
	n := last - first + 1
	items, wakes := make([]newItem, n), make([]Wake, n)
	for i := range n {
		item := first + i
		rendered, err := render(item)
		if err != nil {
			return false, err
		}
		it := &items[i]
		it.id, it.item, it.key = NewID(claim.StartedAt), int32(item), ItemKey(claim, item)
		it.rendered, it.keyID = e.keys.Seal(place.Rendered(it.id), rendered)
	}
	err = pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		var hold pgx.Batch
		var jobIDs []int64
		hold.Queue(holdExpanding, claim.Effect, claim.Token, e.routes[claim.RouteID].Lease.Microseconds()).Query(func(rows pgx.Rows) error {
			mine, err := pgx.CollectRows(rows, pgx.RowTo[ID])
			held = len(mine) == 1
			return err
		})
		e.enqueuer.ReserveTx(&hold, n, &jobIDs)
		if err := tx.SendBatch(ctx, &hold).Close(); err != nil || !held {
			return err
		}
		for i := range n {
			items[i].job = jobIDs[i]
			wakes[i] = Wake{JobID: jobIDs[i], Kind: WakeEffect, ID: items[i].id}
		}
		var b pgx.Batch
		b.Queue(insertItems, itemColumns.Append([]any{claim.Effect}, items)...)
		e.enqueuer.EnqueueTx(&b, wakes)
		return tx.SendBatch(ctx, &b).Close()
	})
	return held && err == nil, err
}

// RefusesLists reports whether an effect of the route must not become several: in mode
// latest a newer version supersedes an effect, but not the items that it has become.
func (r EffectRoute) RefusesLists() bool { return r.Order.Mode == sequence.Latest }

// Items says how the items that an effect became stand.
type Items struct {
	All    int // that are written
	Open   int // that are not at rest and not settled
	Failed int // that are dead or indeterminate

	// Next is how long until the first open one is due again, if all wait for a time.
	Next time.Duration
}

const countItems = `
SELECT count(*), count(*) FILTER (WHERE e.state IN ('pending', 'claimed', 'retry', 'held')),
    count(*) FILTER (WHERE e.state IN ('dead', 'indeterminate')),
    coalesce((extract(epoch FROM min(CASE WHEN e.state = 'claimed' THEN now() ELSE e.next_at END) - now()) * 1000000)::bigint, 0)
FROM effect e
WHERE e.event_id = $1 AND e.route_id = $2 AND e.item > 0`

// Items counts the items that a claimed effect became. In an ordered route the
// effect has the place of all of them, and is not settled before they are.
func (e *Effects) Items(ctx context.Context, claim *Claim) (Items, error) {
	var out Items
	var next int64
	if err := e.pool.QueryRow(ctx, countItems, claim.Event.ID, claim.RouteID).Scan(&out.All, &out.Open, &out.Failed, &next); err != nil {
		return Items{}, fmt.Errorf("counting the items of effect %s: %w", claim.Effect, err)
	}
	out.Next = max(time.Duration(next)*time.Microsecond, 0)
	return out, nil
}
