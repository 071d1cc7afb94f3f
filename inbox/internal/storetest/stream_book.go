package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/jobs"
)

// StreamBook is a database with a route "fulfil" of a source "orders", whose
// streams and effects a test writes as rows. The test then checks lists and
// decisions without the code that normally makes such rows.
type StreamBook struct {
	T      *testing.T
	Pool   *pgxpool.Pool
	Source int32
	Route  int32
	Store  *inbox.Effects
	Lister *read.Lister
}

// NewStreamBook returns a database without streams.
func NewStreamBook(t *testing.T) *StreamBook {
	t.Helper()
	pool := inboxtest.Pool(t)
	registered, err := registry.Register(t.Context(), pool, []registry.Source{{
		Name: "orders", Provider: "test", Class: "default",
		Routes: []registry.Route{{Name: "fulfil", Target: "t", Kind: "forward", Digest: []byte{1}}, {Name: "other", Target: "t", Kind: "forward", Digest: []byte{1}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	// As the command line has it: without the configuration, and so without policies.
	store, err := inbox.NewEffects(inbox.EffectsConfig{Pool: pool, Enqueuer: jobs.NewQueue(jobs.QueueConfig{}), Node: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return &StreamBook{
		T: t, Pool: pool, Source: registered["orders"].ID, Route: registered["orders"].Routes["fulfil"].ID, Store: store, Lister: inboxtest.Lister(pool),
	}
}

// Stream writes a stream; applied is a number or empty.
func (b *StreamBook) Stream(key, applied string) int64 {
	b.T.Helper()
	var id int64
	err := b.Pool.QueryRow(b.T.Context(), `INSERT INTO stream (route_id, key_hash, key_label, applied) VALUES ($1, $2, $3, nullif($4, '')::numeric) RETURNING id`,
		b.Route, inbox.SequenceKeyHash("orders", "fulfil", key), key, applied).Scan(&id)
	if err != nil {
		b.T.Fatal(err)
	}
	return id
}

// Effect writes an event with an effect of the key.
func (b *StreamBook) Effect(key string, number int, state inbox.EffectState) inbox.ID {
	b.T.Helper()
	id := inbox.NewID(time.Now())
	Exec(b.T, b.Pool, `INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id,
		item, body_offset, body_length, id_unsigned, suspected_replay)
		VALUES ($1::uuid, $2, $3, 'order.changed', sha256(''), now(), 'ok', 'default', $1, 0, 0, 0, false, false)`, id, b.Source, fmt.Sprintf("%s-%d-%s", key, number, id))
	Exec(b.T, b.Pool, `INSERT INTO effect (id, event_id, route_id, state, idempotency_key, route_version, reason, next_at, finished_at, sequence_key_hash, sequence_number, lease_token, lease_until)
		VALUES ($1::uuid, $1, $2, $3::text, 'key', 1, CASE WHEN $3 IN ('dead', 'indeterminate', 'skipped') THEN 'status_4xx' END,
			CASE WHEN $3 IN ('pending', 'retry', 'claimed') THEN now() END, CASE WHEN $3 IN ('done', 'superseded', 'skipped') THEN now() END, $4, $5,
			CASE WHEN $3 = 'claimed' THEN $1 END, CASE WHEN $3 = 'claimed' THEN now() + interval '1 minute' END)`,
		id, b.Route, string(state), inbox.SequenceKeyHash("orders", "fulfil", key), number)
	return id
}

// Gap makes the stream wait for missing numbers.
func (b *StreamBook) Gap(stream int64) {
	b.T.Helper()
	Exec(b.T, b.Pool, `UPDATE stream SET gap_since = now() - interval '10 minutes' WHERE id = $1`, stream)
}

// Blocked makes the stream wait for an effect.
func (b *StreamBook) Blocked(stream int64, by inbox.ID) {
	b.T.Helper()
	Exec(b.T, b.Pool, `UPDATE stream SET blocked_by = $2 WHERE id = $1`, stream, by)
}

// Standing is an effect's state, and whether a job will wake it.
func (b *StreamBook) Standing(id inbox.ID) (state string, woken bool) {
	b.T.Helper()
	err := b.Pool.QueryRow(b.T.Context(), `SELECT state, EXISTS (SELECT FROM river_job j WHERE j.id = e.job_id AND j.state = 'available') FROM effect e WHERE id = $1`, id).Scan(&state, &woken)
	if err != nil {
		b.T.Fatal(err)
	}
	return state, woken
}

// Show reads the stream that ref names.
func (b *StreamBook) Show(ref string) *read.StreamDetail {
	b.T.Helper()
	d, err := b.Lister.Stream(b.T.Context(), ref)
	if err != nil {
		b.T.Fatal(err)
	}
	return d
}

// Audited reads the audit entries of a stream.
func (b *StreamBook) Audited(stream int64) []read.AuditRow {
	b.T.Helper()
	rows, err := inboxtest.Rows(b.Lister.Audit(b.T.Context(), read.AuditFilter{Object: fmt.Sprintf("stream/%d", stream)}))
	if err != nil {
		b.T.Fatal(err)
	}
	return rows
}
