package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// EffectFilter narrows a list of effects. A zero field does not narrow it.
type EffectFilter struct {
	Source string `json:"source,omitempty"`
	// Type is the exact type of the event.
	Type   string `json:"type,omitempty"`
	Route  string `json:"route,omitempty"`
	Target string `json:"target,omitempty"`
	State  string `json:"state,omitempty"`
	// Reason is the exact reason for which an effect is in its state.
	Reason string `json:"reason,omitempty"`
	// EventID is the exact event id of the sender.
	EventID string `json:"event_id,omitempty"`
	// Key is an idempotency key, or a Message-ID made of one. It takes the effects that had an attempt under this key.
	Key string `json:"key,omitempty"`
	// Tenant is the tenant of the event: see [EventFilter].
	Tenant string `json:"tenant,omitempty"`
	// Since and Until limit the time at which the effect was recorded: from Since on, and before Until.
	Since time.Time `json:"-"`
	Until time.Time `json:"-"`
	// Cursor is Next of the previous page; empty is the first page.
	Cursor string `json:"-"`
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int `json:"-"`
}

// EffectRow is one line of a list of effects.
type EffectRow struct {
	ID       inbox.ID   `json:"id"`
	Event    inbox.ID   `json:"event"`
	Source   string     `json:"source"`
	EventID  string     `json:"event_id"`
	Type     string     `json:"type"`
	Route    string     `json:"route"`
	Target   string     `json:"target"`
	State    string     `json:"state"`
	Reason   string     `json:"reason,omitempty"`
	Attempts int        `json:"attempts"`
	Code     string     `json:"code,omitempty"`
	NextAt   *time.Time `json:"next_at,omitempty"`

	// Item is the effect's position in its list; 0 if it is no item of a list.
	Item int `json:"item,omitempty"`
	// Tenant is the tenant of the event; empty if it has none.
	Tenant string `json:"tenant,omitempty"`

	// Key is the idempotency key that the target got. SendStartedAt is when the last send began; it is absent if none did.
	Key           string     `json:"idempotency_key,omitempty" shows:"key"`
	SendStartedAt *time.Time `json:"send_started_at,omitempty"`

	// MessageID is the part before the @ of the Message-ID of a message whose sending has begun. You can search the log of a mail server for
	// it, because it is made of the key. It is absent if nothing was sent, if the target sends no mail, and after an erasure.
	MessageID string `json:"message_id,omitempty" shows:"content"`

	// TraceID is the trace of the event: see [EventRow].
	TraceID string `json:"trace_id,omitempty"`

	// Waits says in one sentence what the effect waits for. It is empty if the effect does not wait.
	Waits string `json:"waits,omitempty" db:"-"`
}

// messageID is made as the Message-ID of a message is, by the kind mail.
const messageID = `CASE WHEN r.kind = 'mail' AND e.send_started_at IS NOT NULL AND v.class <> '` + row.ErasedClass + `' THEN left(encode(sha256(convert_to(e.idempotency_key, 'UTF8')), 'hex'), 32) ELSE '' END`

// The statements of the list of effects. They first find the rows of the page in the table of effects, and then join the
// others, as the list of events does.
const (
	selectEffects = `
SELECT e.id, e.event_id, s.name, v.event_id, v.type, r.name, r.target, e.state, coalesce(e.reason, ''),
    e.attempts, coalesce(e.last_code, ''), e.next_at, e.item, coalesce(v.tenant, s.tenant), e.idempotency_key, e.send_started_at, ` + messageID + `, ` + traceID + `
FROM (
    SELECT e.id, e.event_id, e.route_id, e.state, e.reason, e.attempts, e.last_code, e.next_at, e.item, e.idempotency_key, e.send_started_at
    FROM `
	joinEffects = `
    ORDER BY e.id DESC
    LIMIT ?) e
JOIN route r ON r.id = e.route_id
JOIN inbox_event v ON v.id = e.event_id
JOIN source s ON s.id = v.source_id
ORDER BY e.id DESC`

	joinItems = `
    ORDER BY e.event_id, e.route_id, e.item
    LIMIT ?) e
JOIN route r ON r.id = e.route_id
JOIN inbox_event v ON v.id = e.event_id
JOIN source s ON s.id = v.source_id
ORDER BY e.item`

	edgeOfEffects = ` ORDER BY e.id DESC OFFSET ? - 1 LIMIT 1`
)

// routesOf narrows effects e to the routes with a source, a name and a target. PostgreSQL checks each effect: the + 0
// keeps the planner from reading an index of all events for these routes.
func routesOf(source, route, target string) (p row.Predicates) {
	var in row.Predicates
	in.AddIf(source != "", `s.name = ?`, source)
	in.AddIf(route != "", `r.name = ?`, route)
	in.AddIf(target != "", `r.target = ?`, target)
	p.AddAround(`e.route_id + 0 = ANY (ARRAY(SELECT r.id FROM route r JOIN source s ON s.id = r.source_id WHERE `, in, `))`)
	return p
}

// PostgreSQL looks up the event of each effect e, so that the planner cannot begin with all events that match.
const (
	ofType       = `(SELECT v.type FROM inbox_event v WHERE v.id = e.event_id) = ?`
	effectTenant = `(SELECT coalesce(v.tenant, s.tenant) FROM inbox_event v JOIN source s ON s.id = v.source_id WHERE v.id = e.event_id) = ?`
)

// bySender adds an array of the events with a sender's id to a statement: one for each source.
func bySender(s *row.Statement, source, eventID string) {
	s.Add(`ARRAY(SELECT v.id FROM inbox_event v WHERE v.event_id = ? AND v.source_id = ANY (ARRAY(SELECT s.id FROM source s`, eventID)
	var p row.Predicates
	p.AddIf(source != "", `s.name = ?`, source)
	s.Where(p).Add(`)))`)
}

// Effects returns one page of effects, newest first. It returns [ErrCursor] for a cursor of another
// list or filter, and [ErrKeyReference] for a Key that is no key.
func (l *Lister) Effects(ctx context.Context, f EffectFilter) (Page[EffectRow], error) {
	page, err := l.effects(ctx, f)
	if err != nil {
		return page, fmt.Errorf("listing effects: %w", err)
	}
	return page, nil
}

// routes returns the filter's conditions on the route of an effect e.
func (f *EffectFilter) routes() row.Predicates { return routesOf(f.Source, f.Route, f.Target) }

// otherPredicates returns the filter's conditions on an effect e other than its route, its state and its event's id.
func (l *Lister) otherPredicates(f *EffectFilter) (p row.Predicates) {
	p.AddIf(f.Type != "", ofType, f.Type)
	p.AddIf(f.Reason != "", `e.reason = ?`, f.Reason)
	p.AddIf(f.Tenant != "", effectTenant, f.Tenant)
	p.AddIf(l.tenant != "", effectTenant, l.tenant)
	return p
}

// effectPredicates returns the filter's conditions on an effect e but those on its event's id and on its time.
func (l *Lister) effectPredicates(f *EffectFilter) row.Predicates {
	p := append(f.routes(), l.otherPredicates(f)...)
	p.AddIf(f.State != "", `e.state || '' = ?`, f.State)
	return p
}

// readEffects reads the newest of the effects e that from adds to a statement.
func (l *Lister) readEffects(ctx context.Context, from func(*row.Statement), p row.Predicates, limit int) ([]EffectRow, error) {
	var s row.Statement
	s.Add(selectEffects)
	from(&s)
	s.Where(p).Add(joinEffects, limit)
	return collect(ctx, l, &s, scanEffectRow)
}

func (l *Lister) effects(ctx context.Context, f EffectFilter) (page Page[EffectRow], err error) {
	w := listWalk[EffectRow, inbox.ID]{cursor: newListCursor[inbox.ID]("effects", f), limit: f.Limit, place: func(r *EffectRow) inbox.ID { return r.ID }}
	if w.from, err = w.cursor.begin(f.Cursor, idSince(f.Until)); err != nil {
		return page, err
	}
	since, routes, narrow := idSince(f.Since), f.routes(), l.otherPredicates(&f)
	rare := rareStates(f.State)
	if rare != nil && len(narrow) == 0 && f.EventID == "" && f.Key == "" {
		if by := effectsByRoute(f.State); by != nil {
			w.read = func(ctx context.Context, from, _ inbox.ID, limit int) ([]EffectRow, error) {
				return l.readEffects(ctx, func(s *row.Statement) {
					s.Add(`route o CROSS JOIN LATERAL (SELECT e.* FROM effect e WHERE e.route_id = o.id`)
					by(s)
					s.And(effectsBetween(since, from)).Add(` ORDER BY e.route_id DESC, e.id DESC LIMIT ?) e`, limit)
				}, routes, limit)
			}
			return w.page(ctx, l.search())
		}
	}
	narrow = l.effectPredicates(&f)
	if f.Key != "" {
		narrow.AddIf(f.EventID != "", `(SELECT v.event_id FROM inbox_event v WHERE v.id = e.event_id) = ?`, f.EventID)
		return l.keyedEffects(ctx, w, f, narrow)
	}
	if f.EventID != "" {
		w.read = func(ctx context.Context, from, _ inbox.ID, limit int) ([]EffectRow, error) {
			return l.readEffects(ctx, func(s *row.Statement) {
				s.Add(`(SELECT e.* FROM effect e WHERE e.event_id = ANY (`)
				bySender(s, f.Source, f.EventID)
				s.Add(`) OFFSET 0) e`)
			}, append(effectsBetween(since, from), narrow...), limit)
		}
		return w.page(ctx, l.search())
	}
	var walked row.Predicates // conditions that have an index in the order of the list
	walked.AddIf(f.State == string(inbox.EffectDead), `e.state = 'dead'`)
	w.read = func(ctx context.Context, from, to inbox.ID, limit int) ([]EffectRow, error) {
		return l.readEffects(ctx, row.Is(`effect e`), append(append(effectsBetween(later(since, to), from), walked...), narrow...), limit)
	}
	if len(narrow) == len(walked) {
		return w.page(ctx, l.search())
	}
	w.edge = func(ctx context.Context, from inbox.ID, rows int) (inbox.ID, time.Time, error) {
		var s row.Statement
		s.Add(`SELECT e.id FROM effect e`).Where(append(effectsBetween(since, from), walked...)).Add(edgeOfEffects, rows)
		return l.edge(ctx, &s)
	}
	if f.State == string(inbox.EffectDead) {
		rare = nil // its index is walked
	}
	w.fewFirst = rare != nil
	w.few = func(ctx context.Context, from inbox.ID, limit int) ([]EffectRow, bool, error) {
		beyond := append(effectsBetween(since, from), narrow...)
		if rare != nil {
			var s row.Statement
			whole, err := l.isFew(ctx, rare.count(&s))
			if err != nil {
				return nil, false, err
			}
			if whole {
				// PostgreSQL looks up the ids from the newest on, as many as the page needs.
				rows, err := l.readEffects(ctx, row.Is(`effect e`), beyond.With(func(s *row.Statement) {
					s.Add(`e.id = ANY (ARRAY(`)
					rare.effects(s)
					s.Add(`))`)
				}), limit)
				return rows, true, err
			}
		}
		if len(routes) == 0 {
			return nil, false, nil
		}
		var s row.Statement
		f.countEvents(&s)
		if whole, err := l.isFew(ctx, &s); !whole || err != nil {
			return nil, false, err
		}
		rows, err := l.readEffects(ctx, f.bySource, beyond, limit)
		return rows, true, err
	}
	return w.page(ctx, l.search())
}

// shownItems is how many items of each list the page of an event shows.
const shownItems = 100

// effectsOf reads the effects of one event, and of each list the first [shownItems] items.
func (l *Lister) effectsOf(ctx context.Context, event inbox.ID) ([]EffectRow, error) {
	return l.readEffects(ctx, row.Is(`(SELECT e.* FROM effect e WHERE e.event_id = ? AND e.item <= ? OFFSET 0) e`, event, shownItems), nil, row.MaxPage)
}

// effectsByRoute returns the condition for a state whose index begins with the route, or nil. The list reads the newest
// effects of each route, and takes the newest of those.
func effectsByRoute(state string) func(*row.Statement) {
	switch inbox.EffectState(state) {
	case inbox.EffectIndeterminate:
		return row.Is(` AND e.state = 'indeterminate'`)
	case inbox.EffectHeld:
		return row.Is(` AND e.state = 'held'`)
	default:
		return nil
	}
}

// addSources adds the sources whose effects the filter takes to a statement.
func (f *EffectFilter) addSources(s *row.Statement) {
	var p row.Predicates
	p.AddIf(f.Source != "", `s.name = ?`, f.Source)
	p.AddIf(f.Route != "", `r.name = ?`, f.Route)
	p.AddIf(f.Target != "", `r.target = ?`, f.Target)
	s.Add(`ARRAY(SELECT s.id FROM source s JOIN route r ON r.source_id = s.id`).Where(p).Add(`)`)
}

// countEvents counts the events of those sources, and bySource adds their effects. If the sources have few events, the
// effects are found through the index of the events' keys, without a walk of the table of effects. The effects are not
// counted, because looking up the effects of ten thousand events costs more than the rest of the page. If there are many
// because of lists of items, the time limit ends the statement.
func (f *EffectFilter) countEvents(s *row.Statement) {
	s.Add(`SELECT count(*) FROM (SELECT FROM inbox_event v WHERE v.source_id = ANY (`)
	f.addSources(s)
	s.Add(`) ORDER BY v.source_id, v.event_id LIMIT ?) c`, few+1)
}

func (f *EffectFilter) bySource(s *row.Statement) {
	s.Add(`(SELECT e.* FROM (SELECT v.id FROM inbox_event v WHERE v.source_id = ANY (`)
	f.addSources(s)
	s.Add(`) ORDER BY v.source_id, v.event_id LIMIT ?) v CROSS JOIN LATERAL (SELECT e.* FROM effect e WHERE e.event_id = v.id OFFSET 0) e OFFSET 0) e`, 2*few)
}

// AttemptRow is one attempt of an effect.
type AttemptRow struct {
	Attempt    int       `json:"attempt"`
	Trigger    string    `json:"trigger"`
	Node       string    `json:"node"`
	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`
	Outcome    string    `json:"outcome"`
	// Reason is why the attempt failed; empty if it did not fail.
	Reason  string `json:"reason,omitempty"`
	Code    string `json:"code,omitempty"`
	Excerpt string `json:"excerpt,omitempty" shows:"content"`

	// Recognised says that the target knew the key.
	Recognised bool `json:"recognised,omitempty"`
}

// EffectDetail is everything known about one effect, except what was sent.
type EffectDetail struct {
	EffectRow
	Version      int          `json:"version"`
	Revision     int          `json:"revision"` // rises when the effect leaves a state at rest, and with each decision about it
	RouteVersion int          `json:"route_version"`
	Rearms       int          `json:"rearms"`
	LeaseUntil   *time.Time   `json:"lease_until,omitempty"`
	FinishedAt   *time.Time   `json:"finished_at,omitempty"`
	DuplicateOf  *inbox.ID    `json:"duplicate_of,omitempty"`
	List         *ListSummary `json:"list,omitempty"` // if it became a list
	AttemptRows  []AttemptRow `json:"attempt_rows"`

	// Fetched is the stored answer of the route's fetch, as JSON. It is empty if nothing was fetched, or the event was erased.
	Fetched string `json:"fetched,omitempty" shows:"content"`
}

const showEffect = `
SELECT x.id, x.event_id, s.name, v.event_id, v.type, r.name, r.target, x.state, coalesce(x.reason, ''),
       x.attempts, coalesce(x.last_code, ''), x.next_at, x.item,
       x.idempotency_key, x.version, x.revision, x.route_version, x.rearms, x.send_started_at, x.lease_until, x.finished_at,
       x.duplicate_of, coalesce(v.tenant, s.tenant), x.fetched, x.fetched_key_id, ` + messageID + `, ` + traceID + `
FROM effect x
CROSS JOIN LATERAL (SELECT x.send_started_at, x.idempotency_key) e
JOIN route r ON r.id = x.route_id
JOIN inbox_event v ON v.id = x.event_id
JOIN source s ON s.id = v.source_id
WHERE x.id = $1`

// The attempts are in the order in which they were made, because the version rises each time
// the effect is restarted.
const listAttempts = `
SELECT attempt, trigger, node, started_at, finished_at, outcome, coalesce(reason, ''), coalesce(code, ''), coalesce(excerpt, ''), recognised,
    excerpt_key_id, excerpt_sealed
FROM effect_attempt
WHERE effect_id = $1
ORDER BY version, attempt`

// Effect returns one effect by our id, or [inbox.ErrNotFound] if there is none.
func (l *Lister) Effect(ctx context.Context, id inbox.ID) (*EffectDetail, error) {
	var d EffectDetail
	var fetched []byte
	var fetchedKey *int32
	if err := l.allow(ctx, KindEffect, id); err != nil {
		return nil, fmt.Errorf("effect %s: %w", id, err)
	}
	err := l.pool.QueryRow(ctx, showEffect, id).Scan(
		&d.ID, &d.Event, &d.Source, &d.EventID, &d.Type, &d.Route, &d.Target, &d.State, &d.Reason,
		&d.Attempts, &d.Code, &d.NextAt, &d.Item,
		&d.Key, &d.Version, &d.Revision, &d.RouteVersion, &d.Rearms, &d.SendStartedAt, &d.LeaseUntil, &d.FinishedAt,
		&d.DuplicateOf, &d.Tenant, &fetched, &fetchedKey, &d.MessageID, &d.TraceID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("effect %s: %w", id, inbox.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("reading effect %s: %w", id, err)
	}
	d.Waits = d.waits()
	d.Fetched = l.fetched(id, fetchedKey, fetched)
	if d.List, err = l.list(ctx, &d); err != nil {
		return nil, err
	}
	rows, err := l.pool.Query(ctx, listAttempts, id)
	if err != nil {
		return nil, fmt.Errorf("reading the attempts of effect %s: %w", id, err)
	}
	if d.AttemptRows, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (AttemptRow, error) { return l.attempt(r, id) }); err != nil {
		return nil, fmt.Errorf("reading the attempts of effect %s: %w", id, err)
	}
	return &d, nil
}

// fetched opens the stored answer of a fetch. If it cannot be opened, the text says why.
func (l *Lister) fetched(effect inbox.ID, keyID *int32, stored []byte) string {
	plain, err := l.keys.Open(place.Fetched(effect), keyID, stored)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return string(plain)
}

// attempt reads one attempt. If its excerpt cannot be opened, the excerpt says why.
func (l *Lister) attempt(r pgx.CollectableRow, effect inbox.ID) (AttemptRow, error) {
	var (
		a      AttemptRow
		keyID  *int32
		sealed []byte
	)
	err := r.Scan(&a.Attempt, &a.Trigger, &a.Node, &a.StartedAt, &a.FinishedAt, &a.Outcome, &a.Reason, &a.Code, &a.Excerpt, &a.Recognised, &keyID, &sealed)
	if err != nil || keyID == nil {
		return a, err
	}
	plain, err := l.keys.Open(place.Excerpt(effect), keyID, sealed)
	if a.Excerpt = string(plain); err != nil {
		a.Excerpt = "(" + err.Error() + ")"
	}
	return a, nil
}
