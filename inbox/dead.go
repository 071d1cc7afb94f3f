package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/internal/pgtext"
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
		ErrorConfiguration, ErrorBody, ErrorAdmission, ErrorOther,
	}
}

// The reasons that only say that no attempt follows; the last one says why it failed.
const gaveUp = `'attempts_exhausted', 'deadline_passed', 'key_window_passed'`

// lastFailure is why an effect e failed, t being its last attempt or null.
const lastFailure = `CASE WHEN e.reason IN (` + gaveUp + `) THEN coalesce(t.reason, e.reason) ELSE e.reason END`

// failure is the same where the last attempt is not at hand.
const failure = `CASE WHEN e.reason IN (` + gaveUp + `) THEN coalesce((
        SELECT t.reason FROM effect_attempt t WHERE t.effect_id = e.id AND t.version = e.version ORDER BY t.attempt DESC LIMIT 1), e.reason)
    ELSE e.reason END`

// errorClass is the class of an effect e of a route r: by the code of what came last,
// or else by why the last attempt failed.
const errorClass = `
    (SELECT
        CASE
        WHEN f.reason IN ('mapping_failed', 'render_failed', 'route_unknown', 'address_refused') THEN 'configuration'
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
	// Text is looked for in what the last attempts said, whatever the case.
	Text string `json:"text,omitempty"`
	// Tenant is the event's: see [EventFilter].
	Tenant string `json:"tenant,omitempty"`
	// Since and Until are the earliest receipt and the end of the receipts.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// IsZero reports whether the filter takes everything.
func (f DeadFilter) IsZero() bool { return f == DeadFilter{} }

// The filter on an effect e, its route r, its event v and the event's source s.
// An effect's id is never older than its event's.
const NarrowEffects = `
        ($1::text = '' OR s.name = $1)
    AND ($2::text = '' OR v.type = $2)
    AND ($3::text = '' OR r.name = $3)
    AND ($4::text = '' OR r.target = $4)
    AND ($5::text = '' OR e.reason = $5 OR ` + failure + ` = $5)
    AND ($6::text = '' OR ` + errorClass + ` = $6)
    AND ($7::text = '' OR v.event_id = $7)
    AND ($8::text = '' OR EXISTS (SELECT FROM effect_attempt t WHERE t.effect_id = e.id AND t.version = e.version
            AND strpos(lower(t.excerpt), lower($8)) > 0))
    AND ($9::uuid IS NULL OR e.id >= $9 AND v.id >= $9)
    AND ($10::uuid IS NULL OR v.id < $10)
    AND ($11::text = '' OR coalesce(v.tenant, s.tenant) = $11)`

// The same for an event v that is a dead letter itself. It is no longer one once
// it has an effect.
const narrowEvents = `
        v.admission IN ('unusable', 'beyond_retention') AND v.discarded_at IS NULL
    AND NOT EXISTS (SELECT FROM effect x WHERE x.event_id = v.id)
    AND ($1::text = '' OR s.name = $1)
    AND ($2::text = '' OR v.type = $2)
    AND $3::text = '' AND $4::text = ''
    AND ($5::text = '' OR v.admission = $5)
    AND ($6::text IN ('', 'admission'))
    AND ($7::text = '' OR v.event_id = $7)
    AND ($8::text = '' OR strpos(lower(v.admission_detail), lower($8)) > 0)
    AND ($9::uuid IS NULL OR v.id >= $9)
    AND ($10::uuid IS NULL OR v.id < $10)
    AND ($11::text = '' OR coalesce(v.tenant, s.tenant) = $11)`

// Args are the parameters $1 to $11.
func (f *DeadFilter) Args() []any {
	until := pgtype.UUID{}
	if !f.Until.IsZero() {
		until = pgtype.UUID{Bytes: FirstID(f.Until), Valid: true}
	}
	return []any{
		f.Source, f.Type, f.Route, f.Target, f.Reason, string(f.ErrorClass), f.EventID, pgtext.Clean(f.Text, 1024), firstIDSince(f.Since), until, f.Tenant,
	}
}

// DeadRow is one dead letter: an effect, or an event that nothing can be done for.
type DeadRow struct {
	// ID is the effect's, or the event's if Route is empty.
	ID      ID     `json:"id"`
	Event   ID     `json:"event"`
	Source  string `json:"source"`
	EventID string `json:"event_id"`
	Type    string `json:"type"`
	Route   string `json:"route,omitempty"`
	Target  string `json:"target,omitempty"`
	Reason  string `json:"reason"`
	// LastReason is why the last attempt failed, if that is known.
	LastReason string     `json:"last_reason,omitempty"`
	ErrorClass string     `json:"error_class"`
	Code       string     `json:"code,omitempty"`
	Attempts   int        `json:"attempts"`
	Rearms     int        `json:"rearms"`
	Version    int        `json:"version"`
	ReceivedAt time.Time  `json:"received_at"`
	DiedAt     *time.Time `json:"died_at,omitempty"`
	// Said is what the last attempt brought, or why the event cannot be used.
	Said string `json:"said,omitempty"`
	// Tenant is the event's; empty is nobody in particular.
	Tenant string `json:"tenant,omitempty"`
}

// Two pages, each from the index of its kind of dead letter, and the newest of
// both. The last attempt is looked up for the rows of the page alone.
const listDead = `
SELECT d.id, d.event, d.source, d.event_id, d.type, d.route, d.target, d.reason, coalesce(t.reason, ''), d.class, d.code, d.attempts, d.rearms, d.version,
    d.received_at, coalesce(t.finished_at, d.died_at), coalesce(t.excerpt, d.said), t.excerpt_key_id, t.excerpt_sealed, d.tenant
FROM (
    (SELECT e.id, v.id AS event, s.name AS source, v.event_id, v.type, r.name AS route, r.target, e.reason, ` + errorClass + ` AS class,
        coalesce(e.last_code, '') AS code, e.attempts, e.rearms, e.version, v.received_at, NULL::timestamptz AS died_at, '' AS said, coalesce(v.tenant, s.tenant) AS tenant
    FROM effect e
    JOIN route r ON r.id = e.route_id
    JOIN inbox_event v ON v.id = e.event_id
    JOIN source s ON s.id = v.source_id
    WHERE e.state = 'dead' AND ($12::uuid IS NULL OR e.id < $12) AND ` + NarrowEffects + `
    ORDER BY e.id DESC
    LIMIT $13)
    UNION ALL
    (SELECT v.id, v.id, s.name, v.event_id, v.type, '', '', v.admission, 'admission', '', 0, 0, 0, v.received_at, v.received_at,
        coalesce(v.admission_detail, ''), coalesce(v.tenant, s.tenant)
    FROM inbox_event v
    JOIN source s ON s.id = v.source_id
    WHERE ($12::uuid IS NULL OR v.id < $12) AND ` + narrowEvents + `
    ORDER BY v.id DESC
    LIMIT $13)
    ORDER BY id DESC
    LIMIT $13) d
LEFT JOIN LATERAL (
    SELECT t.finished_at, t.reason, t.excerpt, t.excerpt_key_id, t.excerpt_sealed
    FROM effect_attempt t
    WHERE t.effect_id = d.id AND t.version = d.version
    ORDER BY t.attempt DESC
    LIMIT 1) t ON true
ORDER BY d.id DESC`

// Dead gives one page of dead letters, newest first: those before the ID, or the
// newest if it is zero.
func (l *Lister) Dead(ctx context.Context, f DeadFilter, before ID, limit int) ([]DeadRow, error) {
	if err := f.CheckText(ctx, l.pool); err != nil {
		return nil, err
	}
	rows, err := l.pool.Query(ctx, listDead, append(f.Args(), before, row.PageSize(limit))...)
	if err != nil {
		return nil, fmt.Errorf("listing dead letters: %w", err)
	}
	out, err := pgx.CollectRows(rows, l.deadRow)
	if err != nil {
		return nil, fmt.Errorf("listing dead letters: %w", err)
	}
	return out, nil
}

// deadRow reads one dead letter; what was said and cannot be opened says so itself.
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

// ErrSealed is returned for a search in what is sealed: it would miss it. What is
// sealed can be exported, which opens it, and searched there.
var ErrSealed = errors.New("what targets said is sealed and cannot be searched; export the dead letters and search there")

const hasSealedText = `
SELECT EXISTS (
    SELECT
    FROM effect e
    JOIN effect_attempt t ON t.effect_id = e.id AND t.version = e.version
    WHERE e.state IN ('dead', 'indeterminate') AND t.excerpt_sealed IS NOT NULL)`

// searchable refuses a filter by text where some of it is sealed.
func (f *DeadFilter) CheckText(ctx context.Context, pool *pgxpool.Pool) error {
	if f.Text == "" {
		return nil
	}
	var sealed bool
	if err := pool.QueryRow(ctx, hasSealedText).Scan(&sealed); err != nil {
		return fmt.Errorf("searching dead letters: %w", err)
	}
	if sealed {
		return fmt.Errorf("searching dead letters: %w", ErrSealed)
	}
	return nil
}

// EachDead calls do for every dead letter that the filter takes, newest first,
// reading them page by page. It stops at the first error of do.
func (l *Lister) EachDead(ctx context.Context, f DeadFilter, do func(*DeadRow) error) error {
	for before := (ID{}); ; {
		page, err := l.Dead(ctx, f, before, row.MaxPage)
		if err != nil {
			return err
		}
		for i := range page {
			if err := do(&page[i]); err != nil {
				return err
			}
		}
		if len(page) < row.MaxPage {
			return nil
		}
		before = page[len(page)-1].ID
	}
}
