package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// ErrorClass is what kind of thing kept an effect from happening: coarser than its
// reason, since an effect that used up its attempts has that as its reason and
// the last answer as its code.
type ErrorClass string

// The classes of errors. They are a flag and a column of answers: never change.
const (
	// ErrorAnswer4xx means that the last answer of the target was a 4xx.
	ErrorAnswer4xx ErrorClass = "answer_4xx"
	// ErrorAnswer5xx means that the last answer of the target was a 5xx.
	ErrorAnswer5xx ErrorClass = "answer_5xx"
	// ErrorAnswerOther means that the last answer of the target was something else.
	ErrorAnswerOther ErrorClass = "answer_other"
	// ErrorNoAnswer means that there was no connection, or no answer in time.
	ErrorNoAnswer ErrorClass = "no_answer"
	// ErrorMail means that the mail server refused the message.
	ErrorMail ErrorClass = "mail"
	// ErrorDatabase means that the statement failed.
	ErrorDatabase ErrorClass = "database"
	// ErrorHandler means that the handler failed.
	ErrorHandler ErrorClass = "handler"
	// ErrorConfiguration means that an expression, a route or an address is wrong.
	ErrorConfiguration ErrorClass = "configuration"
	// ErrorFetch means that what the event names could not be fetched.
	ErrorFetch ErrorClass = "fetch"
	// ErrorBody means that the body was pruned before the effect happened.
	ErrorBody ErrorClass = "body_gone"
	// ErrorAdmission means that the event was recorded as one that nothing can be done for.
	ErrorAdmission ErrorClass = "admission"
	// ErrorOther means that the cause is none of the others.
	ErrorOther ErrorClass = "other"
)

// ErrorClasses are all of them.
func ErrorClasses() []ErrorClass {
	return []ErrorClass{
		ErrorAnswer4xx, ErrorAnswer5xx, ErrorAnswerOther, ErrorNoAnswer, ErrorMail, ErrorDatabase, ErrorHandler,
		ErrorConfiguration, ErrorFetch, ErrorBody, ErrorAdmission, ErrorOther,
	}
}

// The reasons that only say that no attempt follows; the last one says why it failed.
const gaveUp = `'attempts_exhausted', 'deadline_passed', 'key_window_passed'`

// lastFailure is why an effect e failed, t being its last attempt or null.
const lastFailure = `CASE WHEN e.reason IN (` + gaveUp + `) THEN coalesce(t.reason, e.reason) ELSE e.reason END`

// failure is lastFailure for statements that have not joined the last attempt.
const failure = `CASE WHEN e.reason IN (` + gaveUp + `) THEN coalesce((
        SELECT t.reason FROM effect_attempt t WHERE t.effect_id = e.id AND t.version = e.version ORDER BY t.attempt DESC LIMIT 1), e.reason)
    ELSE e.reason END`

// errorClass is the class of an effect e of a route r: by the code of what came last,
// or else by why the last attempt failed.
const errorClass = `
    (SELECT
        CASE
        WHEN f.reason IN ('mapping_failed', 'render_failed', 'route_unknown', 'address_refused') THEN 'configuration'
        WHEN f.reason IN ('fetch_failed', 'fetch_refused') THEN 'fetch'
        WHEN f.reason = 'body_gone' THEN 'body_gone'
        WHEN f.reason IN ('smtp_4xx', 'smtp_5xx') OR r.kind = 'mail' AND e.last_code IS NOT NULL THEN 'mail'
        WHEN f.reason LIKE 'sql\_%' OR length(e.last_code) = 5 THEN 'database'
        WHEN f.reason IN ('handler', 'panic') OR r.kind = 'handler' THEN 'handler'
        WHEN e.last_code LIKE '4__' THEN 'answer_4xx'
        WHEN e.last_code LIKE '5__' THEN 'answer_5xx'
        WHEN e.last_code IS NOT NULL THEN 'answer_other'
        WHEN f.reason IN ('dns', 'connect', 'tls', 'timeout', 'connection_lost', 'reply_malformed', 'lease_expired', 'stopped',
            'attempts_exhausted', 'deadline_passed', 'key_window_passed') THEN 'no_answer'
        ELSE 'other'
        END
    FROM (SELECT ` + failure + ` AS reason OFFSET 0) f)`

// DeadFilter narrows dead letters; a zero field does not.
type DeadFilter struct {
	Source string `json:"source,omitempty"`
	// Type is the event's, exact.
	Type   string `json:"type,omitempty"`
	Route  string `json:"route,omitempty"`
	Target string `json:"target,omitempty"`
	// Reason is why an effect is dead or why its last attempt failed, or unusable or
	// beyond_retention for events so admitted.
	Reason     string     `json:"reason,omitempty"`
	ErrorClass ErrorClass `json:"error_class,omitempty"`
	// EventID is the sender's, exact.
	EventID string `json:"event_id,omitempty"`
	// Text is searched for, ignoring case, in the answers that the last attempts recorded.
	Text string `json:"text,omitempty" shows:"content"`
	// Tenant is the event's: see [EventFilter].
	Tenant string `json:"tenant,omitempty"`
	// Since and Until are the earliest receipt and the end of the receipts.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// IsZero reports whether the filter takes everything.
func (f DeadFilter) IsZero() bool { return f == DeadFilter{} }

// ofReason narrows effects e to those that are dead for a reason, or whose last attempt failed for it.
const ofReason = `(e.reason = ? OR ` + failure + ` = ?)`

// EffectPredicates returns the conditions of the filter on an effect e. They use the columns of e alone, and look up
// the columns of other tables for each effect, so that the plan of a statement begins with the effects. An effect's id
// is never older than its event's.
func (f *DeadFilter) EffectPredicates() (p row.Predicates) {
	since, until := idSince(f.Since), idSince(f.Until)
	p = routesOf(f.Source, f.Route, f.Target)
	if f.EventID != "" {
		p = append(p, func(s *row.Statement) {
			s.Add(`e.event_id = ANY (`)
			bySender(s, f.Source, f.EventID)
			s.Add(`)`)
		})
	}
	p.AddIf(!f.Since.IsZero(), `e.id >= ? AND e.event_id >= ?`, since, since)
	p.AddIf(!f.Until.IsZero(), `e.event_id < ?`, until)
	p.AddIf(f.Type != "", ofType, f.Type)
	p.AddIf(f.Tenant != "", effectTenant, f.Tenant)
	p.AddIf(f.Reason != "", ofReason, f.Reason, f.Reason)
	p.AddIf(f.ErrorClass != "", `(SELECT `+errorClass+` FROM route r WHERE r.id = e.route_id) = ?`, string(f.ErrorClass))
	p.AddIf(f.Text != "", `(SELECT true FROM effect_attempt t WHERE t.effect_id = e.id AND t.version = e.version AND strpos(lower(t.excerpt), lower(?)) > 0 LIMIT 1)`, f.Text)
	return p
}

// EventPredicates returns the conditions of the filter on an event v that is a dead letter itself. never means that no
// event can match.
func (f *DeadFilter) EventPredicates() (p row.Predicates, never bool) {
	if f.Route != "" || f.Target != "" || f.ErrorClass != "" && f.ErrorClass != ErrorAdmission {
		return nil, true
	}
	p.AddIf(f.Source != "", `v.source_id = (SELECT s.id FROM source s WHERE s.name = ?)`, f.Source)
	p.AddIf(f.Type != "", `v.type = ?`, f.Type)
	p.AddIf(f.Reason != "", `v.admission = ?`, f.Reason)
	p.AddIf(f.EventID != "", `v.event_id = ?`, f.EventID)
	p.AddIf(f.Tenant != "", ofTenant, f.Tenant)
	p.AddIf(f.Text != "", `strpos(lower(v.admission_detail), lower(?)) > 0`, f.Text)
	return append(p, eventsBetween(idSince(f.Since), idSince(f.Until))...), false
}

// DeadRow is one dead letter: an effect, or an event that nothing can be done for.
type DeadRow struct {
	// ID is the effect's, or the event's if Route is empty.
	ID      inbox.ID `json:"id"`
	Event   inbox.ID `json:"event"`
	Source  string   `json:"source"`
	EventID string   `json:"event_id"`
	Type    string   `json:"type"`
	Route   string   `json:"route,omitempty"`
	Target  string   `json:"target,omitempty"`
	Reason  string   `json:"reason"`
	// LastReason is why the last attempt failed, if that is known.
	LastReason string     `json:"last_reason,omitempty"`
	ErrorClass string     `json:"error_class"`
	Code       string     `json:"code,omitempty"`
	Attempts   int        `json:"attempts"`
	Rearms     int        `json:"rearms"`
	Version    int        `json:"version"`
	ReceivedAt time.Time  `json:"received_at"`
	DiedAt     *time.Time `json:"died_at,omitempty"`
	// Said is the answer that the last attempt recorded, or why the event cannot be used.
	Said string `json:"said,omitempty" shows:"content"`
	// Tenant is the event's tenant; empty if it has none.
	Tenant string `json:"tenant,omitempty"`
}

// The statement reads one page from the index of each kind of dead letter and returns the newest of both. It looks up
// joined rows, the class and the last attempt only for the rows of the page.
const (
	selectDead = `
SELECT d.id, d.event, d.source, d.event_id, d.type, d.route, d.target, d.reason, coalesce(t.reason, ''), d.class, d.code, d.attempts, d.rearms, d.version,
    d.received_at, coalesce(t.finished_at, d.died_at), coalesce(t.excerpt, d.said), t.excerpt_key_id, t.excerpt_sealed, d.tenant
FROM (
    (SELECT e.id, v.id AS event, s.name AS source, v.event_id, v.type, r.name AS route, r.target, e.reason, ` + errorClass + ` AS class,
        coalesce(e.last_code, '') AS code, e.attempts, e.rearms, e.version, v.received_at, NULL::timestamptz AS died_at, '' AS said, coalesce(v.tenant, s.tenant) AS tenant
    FROM (SELECT e.* FROM effect e WHERE e.state = 'dead'`
	selectDeadEvents = `
        ORDER BY e.id DESC
        LIMIT ?) e
    JOIN route r ON r.id = e.route_id
    JOIN inbox_event v ON v.id = e.event_id
    JOIN source s ON s.id = v.source_id)
    UNION ALL
    (SELECT v.id, v.id, s.name, v.event_id, v.type, '', '', v.admission, 'admission', '', 0, 0, 0, v.received_at, v.received_at,
        coalesce(v.admission_detail, ''), coalesce(v.tenant, s.tenant)
    FROM (SELECT v.* FROM inbox_event v WHERE `
	joinDead = `
        ORDER BY v.id DESC
        LIMIT ?) v
    JOIN source s ON s.id = v.source_id)
    ORDER BY id DESC
    LIMIT ?) d
LEFT JOIN LATERAL (
    SELECT t.finished_at, t.reason, t.excerpt, t.excerpt_key_id, t.excerpt_sealed
    FROM effect_attempt t
    WHERE t.effect_id = d.id AND t.version = d.version
    ORDER BY t.attempt DESC
    LIMIT 1) t ON true
ORDER BY d.id DESC`

	edgeOfDead       = `(SELECT e.id FROM effect e WHERE e.state = 'dead'`
	edgeOfDeadEvents = ` ORDER BY e.id DESC LIMIT ?) UNION ALL (SELECT v.id FROM inbox_event v WHERE v.admission IN ('unusable', 'beyond_retention')`
	edgeOfBoth       = ` ORDER BY v.id DESC LIMIT ?) ORDER BY id DESC OFFSET ? - 1 LIMIT 1`
)

// PageRequest says which page of a list is asked for; the zero PageRequest is the first one.
type PageRequest struct {
	// Cursor is the Next of the page before this one; empty is the first page.
	Cursor string
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int
}

// Dead returns one page of dead letters, newest first. It returns [ErrCursor] for a cursor of another list or filter,
// and [ErrSealed] for a search in sealed text.
func (l *Lister) Dead(ctx context.Context, f DeadFilter, p PageRequest) (Page[DeadRow], error) {
	page, err := l.dead(ctx, f, p)
	if err != nil {
		return page, fmt.Errorf("listing dead letters: %w", err)
	}
	return page, nil
}

func (l *Lister) dead(ctx context.Context, f DeadFilter, p PageRequest) (page Page[DeadRow], err error) {
	asked := f
	asked.Since, asked.Until = time.Time{}, time.Time{}
	w := listWalk[DeadRow, inbox.ID]{cursor: newListCursor[inbox.ID]("dead", asked), limit: p.Limit, place: func(r *DeadRow) inbox.ID { return r.ID }}
	if w.from, err = w.cursor.begin(p.Cursor); err != nil {
		return page, err
	}
	effects, events := l.deadPredicates(&f)
	w.read = func(ctx context.Context, from, to inbox.ID, limit int) ([]DeadRow, error) {
		if err := l.checkText(ctx, &f, from, to); err != nil {
			return nil, err
		}
		var s row.Statement
		s.Add(selectDead).And(effectsBetween(to, from)).And(effects)
		s.Add(selectDeadEvents, limit).Add(row.DeadEvent).And(eventsBetween(to, from)).And(events).Add(joinDead, limit, limit)
		return collect(ctx, l, &s, l.deadRow)
	}
	if !f.IsZero() || l.tenant != "" {
		w.edge = l.edgeOfDead(idSince(f.Since))
	}
	return w.page(ctx, l.search())
}

// deadPredicates returns the conditions on dead effects and on dead events.
func (l *Lister) deadPredicates(f *DeadFilter) (effects, events row.Predicates) {
	effects = f.EffectPredicates()
	effects.AddIf(l.tenant != "", effectTenant, l.tenant)
	events, never := f.EventPredicates()
	events.AddIf(l.tenant != "", ofTenant, l.tenant)
	events.AddIf(never, `false`)
	return effects, events
}

// edgeOfDead is where a window of that many dead letters ends, of both kinds together.
func (l *Lister) edgeOfDead(since inbox.ID) func(ctx context.Context, from inbox.ID, rows int) (inbox.ID, time.Time, error) {
	return func(ctx context.Context, from inbox.ID, rows int) (inbox.ID, time.Time, error) {
		var s row.Statement
		s.Add(edgeOfDead).And(effectsBetween(since, from)).Add(edgeOfDeadEvents, rows)
		s.And(eventsBetween(since, from)).Add(edgeOfBoth, rows, rows)
		return l.edge(ctx, &s)
	}
}

// deadRow reads one dead letter. If its text cannot be opened, Said says so.
func (l *Lister) deadRow(row pgx.CollectableRow) (DeadRow, error) {
	var (
		d      DeadRow
		keyID  *int32
		sealed []byte
	)
	err := row.Scan(&d.ID, &d.Event, &d.Source, &d.EventID, &d.Type, &d.Route, &d.Target, &d.Reason, &d.LastReason, &d.ErrorClass, &d.Code, &d.Attempts,
		&d.Rearms, &d.Version, &d.ReceivedAt, &d.DiedAt, &d.Said, &keyID, &sealed, &d.Tenant)
	if err != nil || keyID == nil {
		return d, err
	}
	plain, err := l.keys.Open(place.Excerpt(d.ID), keyID, sealed)
	if d.Said = string(plain); err != nil {
		d.Said = "(" + err.Error() + ")"
	}
	return d, nil
}

// ErrSealed is returned for a search in text that is partly sealed, because the search would miss the sealed part. An
// export opens the text, so that it can be searched there.
var ErrSealed = errors.New("what targets said is sealed and cannot be searched; export the dead letters and search there")

const hasSealedText = `
SELECT EXISTS (
    SELECT
    FROM effect e
    JOIN effect_attempt t ON t.effect_id = e.id AND t.version = e.version
    WHERE e.state IN ('dead', 'indeterminate') AND t.excerpt_sealed IS NOT NULL)`

// CheckText refuses a filter by text if any text of a dead or indeterminate effect is sealed.
func (f *DeadFilter) CheckText(ctx context.Context, pool *pgxpool.Pool) error {
	if f.Text == "" {
		return nil
	}
	var sealed bool
	if err := pool.QueryRow(ctx, hasSealedText).Scan(&sealed); err != nil {
		return fmt.Errorf("looking for what is sealed: %w", err)
	}
	if sealed {
		return ErrSealed
	}
	return nil
}

// These find sealed text among the dead effects of a window, with one lookup for each effect.
const (
	hasSealedWindow = `
SELECT true
FROM (SELECT e.id, e.version FROM effect e WHERE e.state = 'dead'`
	sealedAttempts = ` ORDER BY e.id DESC) e
CROSS JOIN LATERAL (SELECT FROM effect_attempt t WHERE t.effect_id = e.id AND t.version = e.version AND t.excerpt_sealed IS NOT NULL LIMIT 1) t
LIMIT 1`
)

// checkText refuses a filter by text where some of it is sealed between two places.
func (l *Lister) checkText(ctx context.Context, f *DeadFilter, from, to inbox.ID) error {
	if f.Text == "" {
		return nil
	}
	var s row.Statement
	var sealed bool
	s.Add(hasSealedWindow).And(effectsBetween(to, from)).Add(sealedAttempts)
	if _, err := l.one(ctx, &s, &sealed); err != nil {
		return fmt.Errorf("looking for what is sealed: %w", err)
	}
	if sealed {
		return ErrSealed
	}
	return nil
}

// EachDead calls do for every dead letter that the filter takes, newest first,
// reading them page by page. It stops at the first error of do.
func (l *Lister) EachDead(ctx context.Context, f DeadFilter, do func(*DeadRow) error) error {
	for next := (PageRequest{Limit: row.MaxPage}); ; {
		page, err := l.Dead(ctx, f, next)
		if err != nil {
			return err
		}
		for i := range page.Data {
			if err := do(&page.Data[i]); err != nil {
				return err
			}
		}
		if !page.HasMore {
			return nil
		}
		next.Cursor = page.Next
	}
}
