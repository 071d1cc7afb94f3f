package invariant

import (
	"bytes"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/drill/ledger"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// Kind is what a route's target can do.
type Kind string

// The kinds of target.
const (
	// Idempotent is an HTTP target that deduplicates by the effect's key.
	Idempotent Kind = "idempotent"
	// Once is a target that cannot deduplicate.
	Once Kind = "once"
	// Mail is a mail server, which cannot deduplicate. Its key is the message's id, and its bytes are rendered.
	Mail Kind = "mail"
	// Table is a function in the database that inserts a row into a table without a unique constraint.
	Table Kind = "table"
	// Sequence is such a function, in an order of mode contiguous.
	Sequence Kind = "sequence"
	// Latest is such a function, in an order of mode latest.
	Latest Kind = "latest"
)

// Route is a route that events take to a target.
type Route struct {
	// Name is the route's name. Routes of several sources that lead to one target have one name.
	Name string

	Kind Kind

	// Type is the type of the events that take the route. Empty is every type.
	Type string

	// Keyed says that the route has an effect key, the subject of an event. One of the events about a subject happens.
	Keyed bool

	// GivesUp says that the route gives up numbers that come after its patience. They may be missing in a sequence.
	GivesUp bool

	// Requests is what an HTTP target has received, by event id.
	Requests map[string]ledger.Requests
}

func (r *Route) takes(eventType string) bool { return r.Type == "" || r.Type == eventType }

// Event is an event as the database has it.
type Event struct {
	EventID   string
	SHA       []byte // the stored hash of the body
	BodySHA   []byte // the hash of the stored bytes
	Admission string
}

// Effect is an effect as the database has it.
type Effect struct {
	Event, Route, State, Reason, Key string
	Attempts                         int

	// Filtered says that the route does not take the type of the event. Such an effect only fills the place of its
	// number in a contiguous sequence.
	Filtered bool
}

// Conflict is a conflicting payload as the database has it: its stored hash, and the hash of the stored bytes.
type Conflict struct{ SHA, BodySHA []byte }

// Applied is a row that a function in the database has inserted.
type Applied struct {
	Route, Event, Stream string
	Number               int
}

// Stored is the content of the tables at the end.
type Stored struct {
	Events    []Event
	Effects   []Effect
	Conflicts map[string][]Conflict // by event id
	Applied   []Applied             // in the order of insertion
}

// Refusals counts the forged deliveries to one process, and those among them that the process counted as refused.
type Refusals struct {
	Process          string
	Refused, Counted int
}

// Evidence is everything that the invariants compare.
type Evidence struct {
	Sent   map[string]ledger.Event
	Routes []Route
	Stored

	// Refusals has the processes that were asked for their counts.
	Refusals []Refusals

	// Faults is how many faults the processes had to survive, and Ended names the processes that ended by
	// themselves.
	Faults int
	Ended  []string
}

// MakeTable makes the table that functions in the database insert into, and the function for routes of the kinds Table,
// Sequence and Latest. A function that is called twice leaves two rows, because nothing is unique there.
const MakeTable = `
CREATE TABLE drill_applied (
    place    bigint GENERATED ALWAYS AS IDENTITY,
    route    text NOT NULL,
    event_id text NOT NULL,
    stream   text NOT NULL,
    number   bigint NOT NULL
);
CREATE FUNCTION drill_apply(document jsonb) RETURNS void LANGUAGE sql AS $$
    INSERT INTO drill_applied (route, event_id, stream, number) VALUES (
        document ->> 'route', document ->> 'id',
        coalesce(document -> 'body' ->> 'stream', ''), coalesce((document -> 'body' ->> 'number')::bigint, 0))
$$`

// The bytes of a sealed body cannot be compared.
const readEvents = `
SELECT e.event_id, e.body_sha256,
    CASE WHEN b.key_id IS NULL THEN sha256(substring(b.body FROM e.body_offset + 1 FOR e.body_length)) ELSE e.body_sha256 END, e.admission
FROM inbox_event e LEFT JOIN inbox_body b ON b.class = e.class AND b.id = e.body_id`

const readEffects = `
SELECT v.event_id, r.name, e.state, coalesce(e.reason, ''), e.idempotency_key,
    (SELECT count(*) FROM effect_attempt a WHERE a.effect_id = e.id), e.filtered
FROM effect e JOIN inbox_event v ON v.id = e.event_id JOIN route r ON r.id = e.route_id`

const readConflicts = `SELECT e.event_id, c.sha256, sha256(c.body) FROM conflict c JOIN inbox_event e ON e.id = c.event_id`

const readApplied = `SELECT route, event_id, stream, number FROM drill_applied ORDER BY place`

// Read reads the tables. The search_path of the connection must be the schema of the drill.
func Read(ctx context.Context, db rig.Querier) (s Stored, err error) {
	if s.Events, err = collect[Event](ctx, db, "events", readEvents); err != nil {
		return s, err
	}
	if s.Effects, err = collect[Effect](ctx, db, "effects", readEffects); err != nil {
		return s, err
	}
	if s.Applied, err = collect[Applied](ctx, db, "applied events", readApplied); err != nil {
		return s, err
	}
	rows, err := db.Query(ctx, readConflicts)
	if err != nil {
		return s, fmt.Errorf("reading conflicts: %w", err)
	}
	s.Conflicts = map[string][]Conflict{}
	var id string
	var c Conflict
	_, err = pgx.ForEachRow(rows, []any{&id, &c.SHA, &c.BodySHA}, func() error {
		s.Conflicts[id] = append(s.Conflicts[id], Conflict{bytes.Clone(c.SHA), bytes.Clone(c.BodySHA)})
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("reading conflicts: %w", err)
	}
	return s, nil
}

func collect[T any](ctx context.Context, db rig.Querier, what, query string) ([]T, error) {
	rows, err := db.Query(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	return all, nil
}
