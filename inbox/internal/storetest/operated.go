package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/inbox/registry"
)

// Operated is a database with operations whose effects the test writes as rows.
type Operated struct {
	Pool   *pgxpool.Pool
	Ops    *operation.Store
	Source int32
	Routes []int32
}

// NewOperated returns a database without operations, and an ordinary route for each effect that one may have.
func NewOperated(t *testing.T, routes int) *Operated {
	t.Helper()
	pool := inboxtest.Pool(t)
	o := &Operated{Pool: pool}
	row := registry.Source{Name: "agents", Provider: "operation", Class: "default"}
	for i := range routes {
		row.Routes = append(row.Routes, registry.Route{Name: fmt.Sprint("r", i), Target: "t", Kind: "forward", Digest: []byte{1}})
	}
	registered, err := registry.Register(t.Context(), pool, []registry.Source{row})
	if err != nil {
		t.Fatal(err)
	}
	o.Source = registered["agents"].ID
	for i := range routes {
		o.Routes = append(o.Routes, registered["agents"].Routes[fmt.Sprint("r", i)].ID)
	}
	o.Ops = o.Operations(t)
	return o
}

// Operations returns what one process has.
func (o *Operated) Operations(t *testing.T) *operation.Store {
	t.Helper()
	ops, err := operation.New(operation.Config{Pool: o.Pool, Poll: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := ops.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ops.Stop(context.WithoutCancel(t.Context())) })
	return ops
}

// Event records an operation whose effects are in the states; "dead!" is dead
// for a reason that no retry cures, "dead?" after an attempt whose outcome is
// unknown, and "dead parted" since an earlier call has done a part of its list;
// "pruned" was pruned by an operator before it was settled.
func (o *Operated) Event(t *testing.T, key string, states ...string) inbox.ID {
	t.Helper()
	id := inbox.NewID(time.Now())
	admission := "ok"
	if len(states) == 0 {
		admission = "unrouted"
	}
	Exec(t, o.Pool, `INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id,
		item, body_offset, body_length, id_unsigned, suspected_replay)
		VALUES ($1, $2, $3, 'charge', sha256(''), now(), $4, 'default', $1, 0, 0, 0, false, false)`, id, o.Source, key, admission)
	for i, state := range states {
		reason, unknown := "status_4xx", false
		switch state {
		case "dead!":
			state, reason = "dead", "status_410"
		case "dead?":
			state, reason, unknown = "dead", "attempts_exhausted", true
		case "dead parted":
			state, reason = "dead", "parent_partial"
		case "pruned", "pruned?":
			unknown = state == "pruned?"
			state, reason = "skipped", "pruned"
		}
		Exec(t, o.Pool, `INSERT INTO effect (id, event_id, route_id, route_version, idempotency_key, state, next_at, reason, finished_at, result, unknown_since)
			VALUES ($1, $2, $3, 1, 'key', $4, CASE WHEN $4 IN ('pending', 'retry') THEN now() END,
				CASE WHEN $4 IN ('dead', 'indeterminate', 'skipped') THEN $5 END, CASE WHEN $4 IN ('done', 'skipped') THEN now() END,
				CASE WHEN $4 = 'done' THEN '{"charge":"ch_1"}'::bytea END, CASE WHEN $6 THEN now() END)`,
			inbox.NewID(time.Now()), id, o.Routes[i], state, reason, unknown)
	}
	return id
}

// Settle brings all effects of an event to rest.
func (o *Operated) Settle(t *testing.T, event inbox.ID, state string) {
	t.Helper()
	Exec(t, o.Pool, `UPDATE effect SET state = $2, next_at = NULL, finished_at = CASE WHEN $2 = 'done' THEN now() END,
		reason = CASE WHEN $2 <> 'done' THEN 'status_410' END WHERE event_id = $1`, event, state)
}
