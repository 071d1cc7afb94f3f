package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/internal/pgtext"
)

// MaxItemsWritten is how many items one call of [Effects.WriteItems] takes at most, since
// one transaction writes them.
const MaxItemsWritten = 500

// ListItem is one effect that another one becomes.
type ListItem struct {
	// Position counts from 1 and never changes: a list that was begun is continued by its
	// positions, even if the configuration has changed since.
	Position int

	// Key is the idempotency key; see [ItemKey].
	Key string

	// KeyHash is the effect key, made of the route's recipe and what the item means; see
	// [ItemKeyHash]. nil for a route without a recipe.
	KeyHash []byte

	// Rendered is what will be sent.
	Rendered []byte

	// Failure, if set, makes the item a dead letter at once, because nothing could be
	// rendered for it. Excerpt explains the failure and quotes nothing of the event.
	Failure reasons.Reason
	Excerpt string

	// DoneBy, if not zero, is the effect with which an earlier call has carried out the item; see [Effects.ItemsDone]. The item
	// is a duplicate of it.
	DoneBy ID
}

// ItemsWritten is what [Effects.WriteItems] did.
type ItemsWritten struct {
	// Held is false if the claim is no longer the caller's: nothing was written then.
	Held bool

	// Duplicates are the items whose effect key belongs to another effect, or that an earlier call has carried out.
	Duplicates []ID

	// Dead are the items with a failure.
	Dead []ID
}

// ItemKey is the idempotency key of one of the items that an effect becomes. It is made
// from what the item means, so that it does not change with its place in the list.
func ItemKey(claim *Claim, meaning string) string { return claim.Key + "/" + meaningDigest(meaning) }

// meaningDigest contains no slash, so that it can be told from the key before it.
func meaningDigest(meaning string) string {
	sum := sha256.Sum256([]byte(meaning))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// The effect that expands is protected by its lease, which this statement renews: a list
// may take longer than one lease.
const holdExpanding = `
UPDATE effect
SET lease_until = now() + $3::bigint * interval '1 microsecond', next_at = now() + $3::bigint * interval '1 microsecond'
WHERE id = $1 AND lease_token = $2 AND lease_until > now()
RETURNING id`

// An item that exists already was written by a run that did not end, or is being written
// by a run that lost its lease: the unique constraint decides.
var insertItems = `
INSERT INTO effect (id, event_id, route_id, route_version, item, idempotency_key, key_hash, rendered, rendered_key_id, job_id,
    state, reason, attempts, next_at, shadow)
SELECT a.id, e.event_id, e.route_id, e.route_version, a.item, a.key, a.key_hash, a.rendered, a.key_id, nullif(a.job_id, 0),
    CASE WHEN a.failure = '' THEN 'pending' ELSE 'dead' END, nullif(a.failure, ''), CASE WHEN a.failure = '' THEN 0 ELSE 1 END,
    CASE WHEN a.failure = '' THEN now() END, e.shadow
FROM unnest(` + itemColumns.Arrays() + `) AS a (` + itemColumns.Names() + `)
CROSS JOIN (SELECT event_id, route_id, route_version, shadow FROM effect WHERE id = $1) e
ON CONFLICT ON CONSTRAINT effect_event_route_item_key DO NOTHING`

// A failure to render counts as an attempt, so that people find out why.
var insertFailures = `
INSERT INTO effect_attempt (effect_id, attempt, version, trigger, node, started_at, finished_at, outcome, excerpt,
    excerpt_sealed, excerpt_key_id, reason)
SELECT e.id, 1, 1, 'initial', $1, now(), now(), 'dead', nullif(a.excerpt, ''), a.excerpt_sealed, a.excerpt_key_id, a.failure
FROM unnest(` + failureColumns.Arrays() + `) AS a (` + failureColumns.Names() + `)
JOIN effect e ON e.id = a.id`

// newItem is the database row of a [ListItem].
type newItem struct {
	*ListItem
	id       ID
	rendered []byte
	keyID    *int32
	job      int64

	excerpt       string
	sealedExcerpt []byte
	excerptKey    *int32
}

// itemColumns follow the parameter of the effect that becomes the items.
var itemColumns = row.ColumnsFrom(2,
	row.UUID("id", func(i *newItem) ID { return i.id }),
	row.Int("item", func(i *newItem) int32 { return int32(i.Position) }),
	row.Text("key", func(i *newItem) string { return i.Key }),
	row.Bytes("key_hash", func(i *newItem) []byte { return i.KeyHash }),
	row.Bytes("rendered", func(i *newItem) []byte { return i.rendered }),
	row.Bigint("job_id", func(i *newItem) int64 { return i.job }),
	row.Int("key_id", func(i *newItem) *int32 { return i.keyID }),
	row.Text("failure", func(i *newItem) reasons.Reason { return i.Failure }),
)

// failureColumns follow the parameter of the node's name.
var failureColumns = row.ColumnsFrom(2,
	row.UUID("id", func(i *newItem) ID { return i.id }),
	row.Text("failure", func(i *newItem) reasons.Reason { return i.Failure }),
	row.Text("excerpt", func(i *newItem) string { return i.excerpt }),
	row.Bytes("excerpt_sealed", func(i *newItem) []byte { return i.sealedExcerpt }),
	row.Int("excerpt_key_id", func(i *newItem) *int32 { return i.excerptKey }),
)

// WriteItems writes effects for items of the list that a claimed effect became, at most
// [MaxItemsWritten], in one transaction together with their jobs and effect keys, and
// renews the claim's lease. It does not change an item that is written already. An item
// whose effect key belongs to another effect is a duplicate of that.
func (e *Effects) WriteItems(ctx context.Context, claim *Claim, items []ListItem) (ItemsWritten, error) {
	if len(items) > MaxItemsWritten {
		return ItemsWritten{}, fmt.Errorf("writing items of effect %s: %d at once, the most is %d", claim.Effect, len(items), MaxItemsWritten)
	}
	fresh := make([]newItem, len(items))
	for i := range items {
		it := &fresh[i]
		it.ListItem, it.id = &items[i], NewID(claim.StartedAt)
		it.rendered, it.keyID = e.keys.Seal(place.Rendered(it.id), items[i].Rendered)
		it.excerpt, it.sealedExcerpt, it.excerptKey = place.SealExcerpt(e.keys, it.id, pgtext.Clean(items[i].Excerpt, 2048))
	}
	var out ItemsWritten
	err := pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) (err error) {
		out, err = e.writeItemsTx(ctx, tx, claim, fresh)
		return err
	})
	if err != nil {
		return ItemsWritten{}, fmt.Errorf("writing items of effect %s: %w", claim.Effect, err)
	}
	return out, nil
}

func (e *Effects) writeItemsTx(ctx context.Context, tx pgx.Tx, claim *Claim, items []newItem) (out ItemsWritten, err error) {
	var hold pgx.Batch
	var jobIDs []int64
	hold.Queue(holdExpanding, claim.Effect, claim.Token, e.routes[claim.RouteID].Lease.Microseconds()).Query(func(rows pgx.Rows) error {
		mine, err := pgx.CollectRows(rows, pgx.RowTo[ID])
		out.Held = len(mine) == 1
		return err
	})
	e.enqueuer.ReserveTx(&hold, len(items), &jobIDs)
	if err := tx.SendBatch(ctx, &hold).Close(); err != nil || !out.Held {
		return out, err
	}
	var asks []ownAsk
	var failed []newItem
	for i := range items {
		it := &items[i]
		if it.Failure != "" {
			failed = append(failed, *it)
			out.Dead = append(out.Dead, it.id)
			continue
		}
		if !it.DoneBy.IsZero() {
			continue
		}
		it.job = jobIDs[i]
		if it.KeyHash != nil {
			ask := e.ownAsk(claim, it.KeyHash)
			ask.effect, ask.token = it.id, ID{}
			asks = append(asks, ask)
		}
	}
	var b pgx.Batch
	b.Queue(insertItems, itemColumns.Append([]any{claim.Effect}, items)...)
	if len(failed) > 0 {
		b.Queue(insertFailures, failureColumns.Append([]any{e.node}, failed)...)
	}
	owners := queueItemOwners(&b, asks, e.routes[claim.RouteID].KeyWithin)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return out, err
	}
	var duplicates, owned []ID
	var why []string
	for i := range items {
		it := &items[i]
		switch owner := owners[it.id]; {
		case !it.DoneBy.IsZero():
			duplicates, owned, why = append(duplicates, it.id), append(owned, it.DoneBy), append(why, string(reasons.ParentDone))
		case !owner.IsZero() && owner != it.id:
			duplicates, owned, why = append(duplicates, it.id), append(owned, owner), append(why, "")
		}
	}
	out.Duplicates = duplicates
	var wakes []Wake
	for i := range items {
		if owner := owners[items[i].id]; items[i].job != 0 && (owner.IsZero() || owner == items[i].id) {
			wakes = append(wakes, Wake{JobID: items[i].job, Kind: WakeEffect, ID: items[i].id})
		}
	}
	var end pgx.Batch
	if len(duplicates) > 0 {
		end.Queue(markDuplicates, duplicates, owned, why)
	}
	if len(wakes) > 0 {
		e.enqueuer.EnqueueTx(&end, wakes)
	}
	if end.Len() == 0 {
		return out, nil
	}
	return out, tx.SendBatch(ctx, &end).Close()
}

// RefusesLists reports whether an effect of the route must not become several: in mode
// latest a newer version supersedes an effect, but not the items that it has become.
func (r EffectRoute) RefusesLists() bool { return r.Order.Mode == sequence.Latest }

// Items counts the items that an effect became, by state.
type Items struct {
	Last   int // the last position that is written; 0 if none is
	Open   int // that are not at rest and not settled
	Failed int // that are dead or indeterminate

	// Next is how long until the first open one is due again, if all wait for a time.
	Next time.Duration
}

const countItems = `
SELECT coalesce(max(e.item), 0), count(*) FILTER (WHERE e.state IN ('pending', 'claimed', 'retry', 'held')),
    count(*) FILTER (WHERE e.state IN ('dead', 'indeterminate')),
    coalesce((extract(epoch FROM min(CASE WHEN e.state = 'claimed' THEN now() ELSE e.next_at END) - now()) * 1000000)::bigint, 0)
FROM effect e
WHERE e.event_id = $1 AND e.route_id = $2 AND e.item > 0`

// Items counts the items that a claimed effect became. In an ordered route the
// effect has the place of all of them, and is not settled before they are.
func (e *Effects) Items(ctx context.Context, claim *Claim) (Items, error) {
	var out Items
	var next int64
	if err := e.pool.QueryRow(ctx, countItems, claim.Event.ID, claim.RouteID).Scan(&out.Last, &out.Open, &out.Failed, &next); err != nil {
		return Items{}, fmt.Errorf("counting the items of effect %s: %w", claim.Effect, err)
	}
	out.Next = max(time.Duration(next)*time.Microsecond, 0)
	return out, nil
}

// An operator overrules the cancellation by giving the effect new attempts later. A redelivery by the sender does not overrule it.
const readListCancelled = `
SELECT EXISTS (SELECT FROM effect h
    WHERE h.event_id = e.event_id AND h.route_id = e.route_id AND h.item = 0 AND h.list_cancelled_at IS NOT NULL
        AND NOT coalesce(e.rearmed_at > h.list_cancelled_at AND e.fresh_trigger IN ('replay', 'manual'), false))
FROM effect e
WHERE e.id = $1`

// ListCancelled reports whether an operator has cancelled the list to which a claimed effect belongs. A cancellation does not
// apply to attempts that an operator gave the effect later.
func (e *Effects) ListCancelled(ctx context.Context, claim *Claim) (cancelled bool, err error) {
	if err := e.pool.QueryRow(ctx, readListCancelled, claim.Effect).Scan(&cancelled); err != nil {
		return false, fmt.Errorf("reading whether the list of effect %s is cancelled: %w", claim.Effect, err)
	}
	return cancelled, nil
}

// The items are written in their order, so that the last one says how far the list is.
const readLastItem = `
SELECT e.item
FROM effect e
WHERE e.event_id = $1 AND e.route_id = $2
ORDER BY e.item DESC
LIMIT 1`

// LastItem returns the last written position of the list of a claimed effect; 0 if none is
// written. A worker that continues the list begins after it.
func (e *Effects) LastItem(ctx context.Context, claim *Claim) (int, error) {
	var last int
	if err := e.pool.QueryRow(ctx, readLastItem, claim.Event.ID, claim.RouteID).Scan(&last); err != nil {
		return 0, fmt.Errorf("reading how far the list of effect %s is: %w", claim.Effect, err)
	}
	return last, nil
}
