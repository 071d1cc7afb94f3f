package read_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/registry"
)

// listed is a database with three events, one effect each, written as rows so
// that the lists are tested apart from what writes them.
type listed struct {
	lister *read.Lister
	events []inbox.ID // oldest first
}

var listStart = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func newListed(t *testing.T) *listed {
	t.Helper()
	pool := inboxtest.Pool(t)
	ctx := t.Context()
	registered, err := registry.Register(ctx, pool, []registry.Source{
		{Name: "stripe", Provider: "stripe", Class: "default", Routes: []registry.Route{{Name: "ledger", Target: "db", Kind: "sql", Digest: []byte{1}}}},
		{Name: "github", Provider: "github", Class: "default", Routes: []registry.Route{{Name: "build", Target: "ci", Kind: "forward", Digest: []byte{1}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := inbox.EnsurePartitions(ctx, pool, []string{"default"}, listStart, 1); err != nil {
		t.Fatal(err)
	}
	l := &listed{lister: inboxtest.Lister(pool)}
	for i, row := range []struct{ source, route, id, kind, state, reason string }{
		{"stripe", "ledger", "evt_1", "invoice.paid", "done", ""},
		{"stripe", "ledger", "evt_2", "charge.failed", "dead", "status_5xx"},
		{"github", "build", "guid/3", "push", "pending", ""},
	} {
		at := listStart.Add(time.Duration(i) * time.Hour)
		id := inbox.NewID(at)
		body := []byte(`[{"n":0},{"n":` + fmt.Sprint(i) + `}]`)
		sum := sha256.Sum256(body)
		storetest.Exec(t, pool, `INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id,
			item, body_offset, body_length, id_unsigned, suspected_replay, deliveries)
			VALUES ($1, $2, $3, $4, $5, $6, 'ok', 'default', $1, 0, 9, 7, false, false, $7)`,
			id, registered[row.source].ID, row.id, row.kind, sum[:], at, i+1)
		storetest.Exec(t, pool, `INSERT INTO inbox_body (class, id, headers, body) VALUES ('default', $1, '{}', $2)`, id, body)
		effect := inbox.NewID(at)
		storetest.Exec(t, pool, `INSERT INTO effect (id, event_id, route_id, state, idempotency_key, route_version, reason, next_at, finished_at, attempts)
			VALUES ($1, $2, $3, $4, 'key', 1, nullif($5, ''), CASE WHEN $4 = 'pending' THEN $6::timestamptz END,
				CASE WHEN $4 = 'done' THEN $6::timestamptz END, 2)`,
			effect, id, registered[row.source].Routes[row.route].ID, row.state, row.reason, at)
		for attempt := range 2 {
			storetest.Exec(t, pool, `INSERT INTO effect_attempt (effect_id, attempt, version, trigger, node, started_at, finished_at, outcome, code)
				VALUES ($1, $2, 1, 'automatic', 'n', $3, $3, 'retry', '503')`, effect, attempt+1, at)
		}
		l.events = append(l.events, id)
	}
	return l
}

func TestListerNarrowsEvents(t *testing.T) {
	t.Parallel()
	l := newListed(t)
	first, err := l.lister.Events(t.Context(), read.EventFilter{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		filter read.EventFilter
		want   []string
	}{
		"newest first":      {read.EventFilter{}, []string{"guid/3", "evt_2", "evt_1"}},
		"by source":         {read.EventFilter{Source: "stripe"}, []string{"evt_2", "evt_1"}},
		"by type":           {read.EventFilter{Type: "push"}, []string{"guid/3"}},
		"by state":          {read.EventFilter{State: "dead"}, []string{"evt_2"}},
		"by route":          {read.EventFilter{Route: "build"}, []string{"guid/3"}},
		"since":             {read.EventFilter{Since: listStart.Add(time.Hour)}, []string{"guid/3", "evt_2"}},
		"a page":            {read.EventFilter{Limit: 1}, []string{"guid/3"}},
		"the page after it": {read.EventFilter{Limit: 1, Cursor: first.Next}, []string{"evt_2"}},
		"nothing there":     {read.EventFilter{Source: "nope"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows, err := inboxtest.Rows(l.lister.Events(t.Context(), c.filter))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, row := range rows {
				got = append(got, row.EventID)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestListerShowsAnEvent(t *testing.T) {
	t.Parallel()
	l := newListed(t)
	for _, ref := range []string{"github/guid/3", l.events[2].String()} {
		event, err := l.lister.Event(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if event.EventID != "guid/3" || event.Deliveries != 3 || !event.BodyKept || event.EffectStates.String() != "pending 1" || len(event.Effects) != 1 || event.EffectsOmitted != 0 {
			t.Errorf("%s: %+v", ref, event)
		}
	}
	body, err := l.lister.Body(t.Context(), l.events[2])
	if err != nil || string(body) != `{"n":2}` {
		t.Errorf("body %q, %v: want the event's own bytes of the delivery", body, err)
	}
	for ref, want := range map[string]error{
		"github/none": inbox.ErrNotFound, inbox.NewID(listStart).String(): inbox.ErrNotFound, "neither": inbox.ErrNotFound, "": read.ErrReference,
	} {
		if _, err := l.lister.Event(t.Context(), ref); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", ref, err, want)
		}
	}
}

func TestListerNarrowsAndShowsEffects(t *testing.T) {
	t.Parallel()
	l := newListed(t)
	for name, c := range map[string]struct {
		filter read.EffectFilter
		want   []string
	}{
		"newest first": {read.EffectFilter{}, []string{"guid/3", "evt_2", "evt_1"}},
		"by state":     {read.EffectFilter{State: "done"}, []string{"evt_1"}},
		"by route":     {read.EffectFilter{Route: "ledger"}, []string{"evt_2", "evt_1"}},
		"by source":    {read.EffectFilter{Source: "github"}, []string{"guid/3"}},
		"by type":      {read.EffectFilter{Type: "charge.failed"}, []string{"evt_2"}},
		"a page":       {read.EffectFilter{Limit: 2}, []string{"guid/3", "evt_2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows, err := inboxtest.Rows(l.lister.Effects(t.Context(), c.filter))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, row := range rows {
				got = append(got, row.EventID)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	rows, err := inboxtest.Rows(l.lister.Effects(context.WithoutCancel(t.Context()), read.EffectFilter{State: "dead"}))
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	effect, err := l.lister.Effect(t.Context(), rows[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	if effect.Reason != "status_5xx" || len(effect.AttemptRows) != 2 || effect.AttemptRows[1].Attempt != 2 {
		t.Errorf("%+v", effect)
	}
	if _, err := l.lister.Effect(t.Context(), inbox.NewID(listStart)); !errors.Is(err, inbox.ErrNotFound) {
		t.Errorf("%v, want %v", err, inbox.ErrNotFound)
	}
}
