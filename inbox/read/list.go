package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/archive"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
)

// Lister answers what a person asks of events and effects. It reads pages by key, newest
// first. A page shows the rows that were visible when it was read; older rows can still
// appear, because commits are not in id order.
//
// A list searches for at most [ListBudget]. If it has not filled its page by then, the page
// says how far it got and has a cursor that continues from there: see [Page.SearchedTo].
type Lister struct {
	pool   *pgxpool.Pool
	keys   *seal.Keyring
	tenant string
	budget time.Duration
	now    func() time.Time

	describe func(rendered []byte) (Message, bool)

	archive *archive.Archive
}

// NewLister makes a Lister that reads through pool. It needs no transaction that
// writes; [session.PoolList] is for it.
func NewLister(pool *pgxpool.Pool) *Lister {
	l := &Lister{pool: pool, budget: ListBudget}
	l.now = time.Now
	l.describe = func([]byte) (Message, bool) { return Message{}, false }
	return l
}

// WithKeyring returns a Lister that also reads sealed content. For content that it cannot
// open it returns [seal.ErrLost] or [seal.ErrDamaged].
func (l *Lister) WithKeyring(keys *seal.Keyring) *Lister {
	with := *l
	with.keys = keys
	return &with
}

// ForTenant returns a Lister that sees only the rows of the tenant: its lists leave out all
// other rows, regardless of their filters, and it returns [inbox.ErrNotFound] if it is asked for a
// row of another tenant. An empty tenant sees everything.
func (l *Lister) ForTenant(tenant string) *Lister {
	scoped := *l
	scoped.tenant = tenant
	return &scoped
}

// WithBudget returns a Lister whose lists search for that long instead of [ListBudget].
func (l *Lister) WithBudget(budget time.Duration) *Lister {
	with := *l
	with.budget = budget
	return &with
}

// EventDetail is all that is known of one event but its body.
type EventDetail struct {
	EventRow
	Provider        string     `json:"provider"`
	Class           string     `json:"class"`
	AdmissionDetail string     `json:"admission_detail,omitempty"`
	OccurredAt      *time.Time `json:"occurred_at,omitempty"`
	LastDeliveryAt  *time.Time `json:"last_delivery_at,omitempty"`
	BodySHA256      string     `json:"body_sha256,omitempty" shows:"hash"`
	BodyLength      int        `json:"body_length" shows:"length"`
	BodyKept        bool       `json:"body_kept"`
	BodyArchived    bool       `json:"body_archived,omitempty"` // in the archive, whether or not it is also kept
	SuspectedReplay bool       `json:"suspected_replay"`
	ConflictAt      *time.Time `json:"conflict_at,omitempty"`
	ConflictPaths   []string   `json:"conflict_paths,omitempty" shows:"member"`

	// Shadow says that the event was recorded while its source was in shadow mode: its effects are evaluated, and none of them is
	// carried out unless an operator plans a replay that does so.
	Shadow bool `json:"shadow,omitempty"`

	// ConflictsKept is how many different payloads of conflicts are kept; of the others
	// only the number is known.
	ConflictsKept int `json:"conflicts_kept"`

	// Labels are the values by which the event is found.
	Labels []EventLabel `json:"labels"`

	// Sequence are the places of the event in the streams of ordered routes.
	Sequence []StreamPlace `json:"sequence"`

	// Effects are the effects, newest first, at most 1,000 of them, and at most the first 100 items of a list. EffectsOmitted is how many more
	// there are: list_effects and list_effect_items page through them.
	Effects        []EffectRow `json:"effects"`
	EffectsOmitted int         `json:"effects_omitted,omitempty"`

	// PayloadHidden says that hashes and paths were left out, and the length rounded up, because the access lacks read-payload.
	PayloadHidden bool `json:"payload_hidden,omitempty"`
}

// Reconciled reports whether the event was read from its sender's list and not delivered.
func (e *EventDetail) Reconciled() bool { return e.AdmissionDetail == inbox.DetailReconciled }

// Buffered reports whether the delivery of the event was acknowledged when it went to the buffer, before the event was recorded.
func (e *EventDetail) Buffered() bool { return e.AdmissionDetail == inbox.DetailBuffered }

// Erased reports whether [prune.EraseEvent] took the content of the event.
func (e *EventDetail) Erased() bool { return e.Class == row.ErasedClass }

var showEvent = `
SELECT v.id, s.name, v.event_id, v.type, v.received_at, v.admission, v.deliveries, v.conflicts,
       s.provider, v.class, coalesce(v.admission_detail, ''), v.occurred_at, v.last_delivery_at,
       CASE WHEN octet_length(v.body_sha256) > 32 THEN '' ELSE encode(v.body_sha256, 'hex') END, v.body_length,
       EXISTS (SELECT FROM inbox_body b WHERE b.class = v.class AND b.id = v.body_id), ` + row.Archived + `,
       v.suspected_replay, v.conflict_at, v.conflict_paths,
       (SELECT count(*) FROM conflict c WHERE c.event_id = v.id), coalesce(v.tenant, s.tenant), v.shadow, ` + traceID + `
FROM inbox_event v JOIN source s ON s.id = v.source_id
WHERE v.id = $1`

// All of them, also the items of lists that are not shown; the newest state first.
const countEventEffects = `
SELECT coalesce(json_agg(json_build_object('state', n.state, 'count', n.count) ORDER BY n.newest DESC), '[]')
FROM (SELECT x.state, count(*) AS count, max(x.id::text) AS newest FROM effect x WHERE x.event_id = $1 GROUP BY x.state) n`

// Event returns one event by a reference: see [Lister.Find]. It returns [inbox.ErrNotFound] if
// there is none, and an [AmbiguousError] if the reference names several.
func (l *Lister) Event(ctx context.Context, ref string) (*EventDetail, error) {
	id, err := l.Find(ctx, KindEvent, ref)
	if err != nil {
		return nil, err
	}
	var d EventDetail
	err = l.pool.QueryRow(ctx, showEvent, id).Scan(
		&d.ID, &d.Source, &d.EventID, &d.Type, &d.ReceivedAt, &d.Admission, &d.Deliveries, &d.Conflicts,
		&d.Provider, &d.Class, &d.AdmissionDetail, &d.OccurredAt, &d.LastDeliveryAt,
		&d.BodySHA256, &d.BodyLength, &d.BodyKept, &d.BodyArchived, &d.SuspectedReplay, &d.ConflictAt, &d.ConflictPaths, &d.ConflictsKept, &d.Tenant, &d.Shadow, &d.TraceID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("event %s: %w", ref, inbox.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("reading event %s: %w", ref, err)
	}
	if d.Effects, err = l.effectsOf(ctx, d.ID); err != nil {
		return nil, fmt.Errorf("reading the effects of event %s: %w", ref, err)
	}
	if err := l.pool.QueryRow(ctx, countEventEffects, d.ID).Scan(&d.EffectStates); err != nil {
		return nil, fmt.Errorf("counting the effects of event %s: %w", ref, err)
	}
	for _, n := range d.EffectStates {
		d.EffectsOmitted += n.Count
	}
	d.EffectsOmitted = max(0, d.EffectsOmitted-len(d.Effects)) // some may have been made in between
	if d.Labels, err = l.labelsOf(ctx, d.ID); err != nil {
		return nil, fmt.Errorf("reading the labels of event %s: %w", ref, err)
	}
	if d.Sequence, err = l.places(ctx, d.ID); err != nil {
		return nil, fmt.Errorf("reading the neighbours of event %s: %w", ref, err)
	}
	return &d, nil
}

// The statement cuts the event's own bytes out of its delivery's body. It returns a sealed
// body whole, because that can be cut only after it is opened.
const readBody = `
SELECT CASE WHEN b.key_id IS NULL THEN substr(b.body, e.body_offset + 1, e.body_length) ELSE b.body END,
    b.key_id, b.id, e.body_offset, e.body_length
FROM inbox_event e JOIN inbox_body b ON b.id = e.body_id AND b.class = e.class
WHERE e.id = $1`

// Body returns the exact bytes of one event, from the archive if the database no longer has them. It returns [inbox.ErrNotFound] if
// neither has.
func (l *Lister) Body(ctx context.Context, id inbox.ID) ([]byte, error) {
	var (
		body           []byte
		keyID          *int32
		bodyID         inbox.ID
		offset, length int
	)
	if err := l.allow(ctx, KindEvent, id); err != nil {
		return nil, fmt.Errorf("body of event %s: %w", id, err)
	}
	err := l.pool.QueryRow(ctx, readBody, id).Scan(&body, &keyID, &bodyID, &offset, &length)
	if errors.Is(err, pgx.ErrNoRows) {
		content, err := l.archived(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("body of event %s: %w", id, err)
		}
		return content.Body, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the body of event %s: %w", id, err)
	}
	if body, err = place.OpenPart(l.keys, bodyID, keyID, body, offset, length); err != nil {
		return nil, fmt.Errorf("reading the body of event %s: %w", id, err)
	}
	return body, nil
}

// allow returns [inbox.ErrNotFound] for a row of another tenant than the Lister's.
func (l *Lister) allow(ctx context.Context, kind Kind, id inbox.ID) error {
	if l.tenant == "" {
		return nil
	}
	found, _, err := l.findBetween(ctx, kind, id, id)
	if err == nil && len(found) == 0 {
		err = inbox.ErrNotFound
	}
	return err
}
