package storetest

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/jobs"
)

// Buried is a database with dead letters of several sorts, and as many effects
// that are not dead.
type Buried struct {
	Pool    *pgxpool.Pool
	Lister  *read.Lister
	Effects *inbox.Effects
	IDs     map[string]inbox.ID // by event id: the effect's, or the event's if it has none
}

// Nightfall is when the first event of a [Buried] was received.
var Nightfall = time.Date(2026, 11, 20, 22, 0, 0, 0, time.UTC)

// NewBuried returns a database with dead letters.
func NewBuried(t *testing.T) *Buried {
	t.Helper()
	pool := inboxtest.Pool(t)
	ctx := t.Context()
	registered, err := registry.Register(ctx, pool, []registry.Source{
		{Name: "stripe", Provider: "stripe", Class: "default", Routes: []registry.Route{
			{Name: "ledger", Target: "db", Kind: "sql", Digest: []byte{1}}, {Name: "bill", Target: "billing", Kind: "forward", Digest: []byte{1}},
		}},
		{Name: "github", Provider: "github", Class: "default", Routes: []registry.Route{{Name: "build", Target: "ci", Kind: "forward", Digest: []byte{1}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	store, err := inbox.NewEffects(inbox.EffectsConfig{Pool: pool, Enqueuer: jobs.NewQueue(jobs.QueueConfig{}), Node: "test"})
	if err != nil {
		t.Fatal(err)
	}
	b := &Buried{Pool: pool, Lister: inboxtest.Lister(pool), Effects: store, IDs: map[string]inbox.ID{}}
	for i, row := range []struct{ source, route, id, kind, state, reason, code, said, admission string }{
		{"stripe", "bill", "evt_1", "invoice.paid", "dead", "attempts_exhausted", "503", "Closed for the Night", "ok"},
		{"stripe", "bill", "evt_2", "invoice.paid", "dead", "attempts_exhausted", "503", "closed for the night", "ok"},
		{"stripe", "bill", "evt_3", "charge.failed", "dead", "status_4xx", "404", "no such customer", "ok"},
		{"stripe", "ledger", "evt_4", "charge.failed", "dead", "sql_error", "23505", "", "ok"},
		{"github", "build", "guid_5", "push", "dead", "attempts_exhausted", "", "connection refused", "ok"},
		{"github", "build", "guid_6", "push", "dead", "mapping_failed", "", "map: no such key", "ok"},
		{"github", "", "~7", "", "", "", "", "the id is missing", "unusable"},
		{"stripe", "", "evt_8", "invoice.paid", "", "", "", "older than its tombstone", "beyond_retention"},
		{"stripe", "bill", "evt_9", "invoice.paid", "indeterminate", "timeout", "", "", "ok"},
		{"stripe", "bill", "evt_10", "invoice.paid", "done", "", "200", "", "ok"},
		{"github", "", "guid_11", "ping", "", "", "", "", "unrouted"},
	} {
		at := Nightfall.Add(time.Duration(i) * time.Hour)
		id := inbox.NewID(at)
		Exec(t, pool, `INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, admission_detail, class, body_id,
			item, body_offset, body_length, id_unsigned, suspected_replay)
			VALUES ($1, $2, $3, $4, sha256('x'), $5, $6, nullif($7, ''), 'default', $1, 0, 0, 1, false, false)`,
			id, registered[row.source].ID, row.id, row.kind, at, row.admission, row.said)
		b.IDs[row.id] = id
		if row.route == "" {
			continue
		}
		effect := inbox.NewID(at)
		b.IDs[row.id] = effect
		Exec(t, pool, `INSERT INTO effect (id, event_id, route_id, state, idempotency_key, route_version, reason, last_code, attempts, finished_at)
			VALUES ($1, $2, $3, $4, 'key', 1, nullif($5, ''), nullif($6, ''), 2, CASE WHEN $4 = 'done' THEN now() END)`,
			effect, id, registered[row.source].Routes[row.route].ID, row.state, row.reason, row.code)
		for attempt, said := range []string{"", row.said} {
			Exec(t, pool, `INSERT INTO effect_attempt (effect_id, attempt, version, trigger, node, started_at, finished_at, outcome, excerpt)
				VALUES ($1, $2, 1, 'automatic', 'n', $3, $3, 'retry', nullif($4, ''))`, effect, attempt+1, at.Add(time.Duration(attempt)*time.Minute), said)
		}
	}
	return b
}
