package move

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
)

const (
	readSource = `SELECT s.id, s.emit FROM source s WHERE s.name = $1`

	readMove = `
SELECT m.direction = 'out', m.other, m.state FROM source_move m WHERE m.source_id = $1`

	readRoutes = `SELECT id, name FROM route WHERE source_id = $1`

	// Whatever order or key a route ever had counts, because effects of that time may still wait.
	readCareful = `
SELECT r.id FROM route r
WHERE r.source_id = $1
    AND (EXISTS (SELECT FROM order_definition o WHERE o.route_id = r.id) OR EXISTS (SELECT FROM key_recipe k WHERE k.route_id = r.id))`

	countUndecided = `
SELECT count(*) FROM (SELECT FROM effect e WHERE e.route_id = ANY ($1::int[]) AND e.state IN ('dead', 'indeterminate') LIMIT 10000) n`
)

// begin finds the source in both databases, and writes the rows of a move that is new.
func (m *Move) begin(ctx context.Context) (*source, error) {
	s := &source{}
	var emit bool
	err := m.From.Pool.QueryRow(ctx, readSource, m.Source).Scan(&s.from, &emit)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, fmt.Errorf("%w: %s", ErrUnknown, m.From.Name)
	case err != nil:
		return nil, err
	case emit:
		return nil, fmt.Errorf("%w: programs call emit() in transactions of the database %s, where its outbox is", ErrStays, m.From.Name)
	}
	if err := m.careful(ctx, s); err != nil {
		return nil, err
	}
	was, err := moveOf(ctx, m.From.Pool, s.from)
	if err != nil {
		return nil, err
	}
	if was != nil && was.Leaves && (was.Step != StepSettled || was.Other == m.To.Name) {
		if was.Other != m.To.Name {
			return nil, fmt.Errorf("%w: it goes to %s; run `oncegate sources move %s --to %s` first", ErrOther, was.Other, m.Source, was.Other)
		}
		return s, m.resume(ctx, s, *was)
	}
	if was != nil && !was.Leaves && was.Step != StepSettled {
		return nil, fmt.Errorf("%w: it comes from %s; run `oncegate sources move %s --to %s` first", ErrOther, was.Other, m.Source, m.From.Name)
	}
	if err := m.checkSecrets(ctx); err != nil {
		return nil, err
	}
	var undecided int64
	if err := m.From.Pool.QueryRow(ctx, countUndecided, s.careful).Scan(&undecided); err != nil {
		return nil, err
	}
	if undecided > 0 {
		return nil, fmt.Errorf("%w: %d dead or indeterminate effects of its routes that are ordered or have keys; replay, resolve or discard them first (`oncegate dead list --source %s`)",
			ErrUndecided, undecided, m.Source)
	}
	if err := m.announce(ctx, s); err != nil {
		return nil, err
	}
	return s, m.resume(ctx, s, Residence{Leaves: true, Other: m.To.Name, Step: StepCopying})
}

// careful reads which routes of the first database are ordered or have keys.
func (m *Move) careful(ctx context.Context, s *source) error {
	rows, err := m.From.Pool.Query(ctx, readCareful, s.from)
	if err != nil {
		return err
	}
	s.careful, err = pgx.CollectRows(rows, pgx.RowTo[int32])
	return err
}

// moveOf returns the row of a source's move, or nil.
func moveOf(ctx context.Context, pool *pgxpool.Pool, source int32) (*Residence, error) {
	var r Residence
	err := pool.QueryRow(ctx, readMove, source).Scan(&r.Leaves, &r.Other, &r.Step)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // it never moved
	}
	return &r, err
}

// checkSecrets refuses databases that hash under different secrets.
func (m *Move) checkSecrets(ctx context.Context) error {
	if m.Keys.Ring() == nil {
		return nil
	}
	var ids [2]inbox.ID
	for i, at := range []Database{m.From, m.To} {
		secret, err := inbox.ReadInstallationSecret(ctx, at.Pool, m.Keys)
		if err != nil {
			return err
		}
		ids[i] = secret.ID
	}
	if ids[0] != ids[1] {
		return fmt.Errorf("%w: %s and %s were first used by different installations, so neither could recognise the payloads of the other", ErrSecrets, m.From.Name, m.To.Name)
	}
	return nil
}

const (
	// A move that came here before ends with the one that leaves.
	upsertMove = `
INSERT INTO source_move (source_id, direction, other, state, actor, reason) VALUES ($1, $2, $3, 'copying', $4, $5)
ON CONFLICT ON CONSTRAINT source_move_pkey DO UPDATE
SET direction = excluded.direction, other = excluded.other, state = 'copying', position = '', copied = 0, actor = excluded.actor, reason = excluded.reason,
    began_at = now(), changed_at = now()`

	hasKeys = `SELECT EXISTS (SELECT FROM inbox_event e WHERE e.source_id = $1)`
)

// announce writes the rows of a new move. The other database comes first: until the first one has its row, nothing follows from it.
func (m *Move) announce(ctx context.Context, s *source) error {
	err := m.fromConn(ctx, func(from *pgx.Conn) error {
		return locked(ctx, m.To.Pool, func(tx pgx.Tx) error { return m.announceArrival(ctx, s, from, tx) })
	})
	if err != nil {
		return err
	}
	return locked(ctx, m.From.Pool, func(tx pgx.Tx) error {
		// Creating the trigger waits for all transactions that insert, so the copy sees their events. The trigger records all later events.
		if err := trigger(ctx, tx, "inbox_event", "note", s.from, "AFTER INSERT", "NEW.source_id = "+fmt.Sprint(s.from), "note_event"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, upsertMove, s.from, "out", m.To.Name, m.Actor, m.Reason); err != nil {
			return err
		}
		return m.audit(ctx, tx, inbox.AuditSourceMove, StepCopying)
	})
}

// announceArrival writes the source into the other database, which refuses its events until the move is open.
func (m *Move) announceArrival(ctx context.Context, s *source, from *pgx.Conn, tx pgx.Tx) error {
	only := fmt.Sprintf("WHERE t.id = %d", s.from)
	if _, err := copyRows(ctx, from, tx, transfer{table: "source", where: only, conflict: doNothing}); err != nil {
		return err
	}
	err := tx.QueryRow(ctx, `SELECT id FROM source WHERE name = $1`, m.Source).Scan(&s.to)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%w: %s has a source that makes its keys with that name", ErrOccupied, m.To.Name)
	}
	if err != nil {
		return err
	}
	was := Residence{}
	err = tx.QueryRow(ctx, readMove, s.to).Scan(&was.Leaves, &was.Other, &was.Step)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		var keys bool
		if err := tx.QueryRow(ctx, hasKeys, s.to).Scan(&keys); err != nil {
			return err
		}
		if keys {
			return fmt.Errorf("%w: %s has other events for it", ErrOccupied, m.To.Name)
		}
	case err != nil:
		return err
	case was.Leaves && was.Step != StepSettled:
		return fmt.Errorf("%w: it leaves %s for %s", ErrOther, m.To.Name, was.Other)
	}
	if _, err := tx.Exec(ctx, upsertMove, s.to, "in", m.From.Name, m.Actor, m.Reason); err != nil {
		return err
	}
	if err := m.copyDefinitions(ctx, s, from, tx); err != nil {
		return err
	}
	if err := sameKeyNames(ctx, s, from, tx); err != nil {
		return fmt.Errorf("%w: %s %w", ErrOccupied, m.To.Name, err)
	}
	return refuseEvents(ctx, tx, s.to) // last, because deliveries wait for its lock
}

const readKeyNames = `
SELECT '', coalesce(s.key_name, s.name) FROM source s WHERE s.id = $1
UNION ALL
SELECT r.name, coalesce(r.key_name, r.name) FROM route r WHERE r.source_id = $1`

// sameKeyNames returns an error if the other database had the source or one of its routes before, and makes its keys with another name.
func sameKeyNames(ctx context.Context, s *source, from, to reader) error {
	names := [2]map[string]string{{}, {}} // of both databases
	for i, db := range []reader{from, to} {
		var name, key string
		rows, err := db.Query(ctx, readKeyNames, []int32{s.from, s.to}[i])
		if err == nil {
			_, err = pgx.ForEachRow(rows, []any{&name, &key}, func() error { names[i][name] = key; return nil })
		}
		if err != nil {
			return err
		}
	}
	for name, key := range names[0] {
		if other := names[1][name]; other != key {
			return fmt.Errorf("makes the keys of %s with the name %q, and not with %q", cmp.Or(name, "the source"), other, key)
		}
	}
	return nil
}

// copyDefinitions copies the routes and everything by which their sequences and keys are hashed.
func (m *Move) copyDefinitions(ctx context.Context, s *source, from *pgx.Conn, tx pgx.Tx) error {
	source := map[string]string{"source_id": fmt.Sprintf("%d::int", s.to)}
	ofSource := fmt.Sprintf("WHERE t.source_id = %d", s.from)
	for _, t := range []transfer{
		{table: "route", change: source, where: ofSource},
		{table: "order_secret"}, {table: "retention_class"},
		{table: "reconciliation", change: source, where: ofSource},
	} {
		t.conflict = doNothing
		if _, err := copyRows(ctx, from, tx, t); err != nil {
			return err
		}
	}
	if err := mapRoutes(ctx, s, from, tx); err != nil {
		return err
	}
	route := mapped("t.route_id", s.routes, "int")
	routes := "WHERE t.route_id IN (SELECT r.id FROM route r WHERE r.source_id = " + fmt.Sprint(s.from) + ")"
	of := map[string]string{"route_id": route}
	both := map[string]string{"source_id": source["source_id"], "route_id": route}
	for _, t := range []transfer{
		{table: "route_version", change: of, where: routes},
		{table: "order_definition", change: of, where: routes},
		{table: "key_recipe", change: of, where: routes},
		{table: "past_name", change: both, where: ofSource},
		{table: "pause", change: of, where: routes},
		{table: "pause", change: source, where: ofSource},
	} {
		t.conflict = doNothing
		if _, err := copyRows(ctx, from, tx, t); err != nil {
			return err
		}
	}
	return mapDefinitions(ctx, s, from, tx)
}

// mapRoutes finds which route of the one database is which of the other one, by their names.
func mapRoutes(ctx context.Context, s *source, from *pgx.Conn, to reader) error {
	ids := map[string]int32{}
	var id int32
	var name string
	rows, err := to.Query(ctx, readRoutes, s.to)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error { ids[name] = id; return nil })
	}
	if err != nil {
		return err
	}
	s.routes = map[int32]int32{}
	rows, err = from.Query(ctx, readRoutes, s.from)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
			if other, ok := ids[name]; ok {
				s.routes[id] = other
			}
			return nil
		})
	}
	return err
}

const readDefinitions = `
SELECT d.id, d.route_id, d.digest FROM order_definition d JOIN route r ON r.id = d.route_id WHERE r.source_id = $1`

// mapDefinitions does the same for the definitions of orders, by their routes and digests.
func mapDefinitions(ctx context.Context, s *source, from *pgx.Conn, to reader) error {
	type place struct {
		route  int32
		digest string
	}
	ids := map[place]int64{}
	var id int64
	var route int32
	var digest []byte
	rows, err := to.Query(ctx, readDefinitions, s.to)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&id, &route, &digest}, func() error { ids[place{route, string(digest)}] = id; return nil })
	}
	if err != nil {
		return err
	}
	s.definitions = map[int64]int64{}
	rows, err = from.Query(ctx, readDefinitions, s.from)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&id, &route, &digest}, func() error {
			if other, ok := ids[place{s.routes[route], string(digest)}]; ok {
				s.definitions[id] = other
			}
			return nil
		})
	}
	return err
}

// reader is a pool or a transaction.
type reader interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// resume finds out where a move that has begun continues.
func (m *Move) resume(ctx context.Context, s *source, out Residence) error {
	s.move = out
	err := m.To.Pool.QueryRow(ctx, `SELECT id FROM source WHERE name = $1`, m.Source).Scan(&s.to)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%w: the database %s does not have it any more, although the move had begun", ErrUnknown, m.To.Name)
	}
	if err != nil {
		return err
	}
	in, err := moveOf(ctx, m.To.Pool, s.to)
	if err != nil {
		return err
	}
	if in == nil || in.Leaves || in.Other != m.From.Name {
		return fmt.Errorf("%w: the database %s does not know of it, although the move had begun", ErrUnknown, m.To.Name)
	}
	if in.Step != StepCopying { // the first database is closed by then
		s.move.Step = in.Step
	}
	return m.fromConn(ctx, func(from *pgx.Conn) error {
		if err := mapRoutes(ctx, s, from, m.To.Pool); err != nil {
			return err
		}
		return mapDefinitions(ctx, s, from, m.To.Pool)
	})
}

// fromConn calls do with a connection of the first database.
func (m *Move) fromConn(ctx context.Context, do func(*pgx.Conn) error) error {
	return m.From.Pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error { return do(conn.Conn()) })
}

// trigger makes a trigger of the move on a table. The lock that it needs waits for every transaction that writes the table.
func trigger(ctx context.Context, tx pgx.Tx, table, name string, source int32, when, condition, function string) error {
	if err := untrigger(ctx, tx, table, name, source); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, fmt.Sprintf(`CREATE TRIGGER %s %s ON %s FOR EACH ROW WHEN (%s) EXECUTE FUNCTION %s()`, triggerName(name, source), when, table, condition, function))
	return err
}

// refuseEvents makes the fence of a database that does not receive the source. The keys that a move copies pass.
func refuseEvents(ctx context.Context, tx pgx.Tx, source int32) error {
	return trigger(ctx, tx, "inbox_event", "refuse", source, "BEFORE INSERT", fmt.Sprintf("NEW.source_id = %d AND NOT NEW.copied", source), "refuse_event")
}

func untrigger(ctx context.Context, tx pgx.Tx, table, name string, source int32) error {
	var exists bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = $1::regclass AND tgname = $2)`, table, triggerName(name, source)).Scan(&exists)
	if err == nil && exists {
		_, err = tx.Exec(ctx, `DROP TRIGGER `+triggerName(name, source)+` ON `+table)
	}
	return err
}

func triggerName(name string, source int32) string {
	return fmt.Sprintf("source_move_%s_%d", name, source)
}

// audit records a step in the database of the transaction.
func (m *Move) audit(ctx context.Context, tx pgx.Tx, action inbox.AuditAction, step Step) error {
	now := inbox.AuditEntry{
		Actor: m.Actor, Action: action, Object: "source/" + m.Source, Reason: m.Reason,
		After: map[string]string{"from": m.From.Name, "to": m.To.Name, "step": string(step)},
	}
	if err := tx.QueryRow(ctx, `SELECT now()`).Scan(&now.At); err != nil {
		return err
	}
	return inbox.WriteAuditTx(ctx, tx, now)
}
