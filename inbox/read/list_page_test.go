package read_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/session"
)

// crowded is a database with 20,000 events of one source and some of another one far apart among them.
func crowded(t *testing.T) (*read.Lister, []string) {
	t.Helper()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	inboxtest.Source(t, pool, "stripe")
	inboxtest.Source(t, pool, "quiet")
	storetest.Crowd(t, pool)
	storetest.Exec(t, pool, `UPDATE inbox_event SET source_id = (SELECT id FROM source WHERE name = 'quiet'), type = 'rare' WHERE event_id LIKE 'many_%777'`)
	var want []string
	if err := pool.QueryRow(t.Context(), `SELECT array_agg(event_id ORDER BY id DESC) FROM inbox_event WHERE type = 'rare'`).Scan(&want); err != nil {
		t.Fatal(err)
	}
	return read.NewLister(inboxtest.Open(t, url, schema, session.PoolList, 2)), want
}

// Page after page gives every row once, also where each page is ended by the budget: such a page says how far it got.
func TestPagesGoOnWhereTheyEnded(t *testing.T) {
	t.Parallel()
	l, want := crowded(t)
	for name, c := range map[string]struct {
		budget   time.Duration
		filter   read.EventFilter
		searched bool
	}{
		"of a type":                {read.ListBudget, read.EventFilter{Type: "rare", Limit: 3}, false},
		"of a type, in no time":    {-1, read.EventFilter{Type: "rare", Limit: 3}, true},
		"of a source":              {read.ListBudget, read.EventFilter{Source: "quiet", Limit: 3}, false},
		"of a source with a since": {read.ListBudget, read.EventFilter{Source: "quiet", Limit: 7, Since: time.UnixMilli(1)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			searched := false
			for pages := 0; ; pages++ {
				page, err := l.WithBudget(c.budget).Events(t.Context(), c.filter)
				if err != nil || pages > 100 {
					t.Fatalf("page %d: %v", pages, err)
				}
				for _, row := range page.Data {
					got = append(got, row.EventID)
				}
				searched = searched || page.SearchedTo != nil
				if page.SearchedTo != nil && !page.HasMore {
					t.Error("a page that was not searched to its end has no next one")
				}
				if !page.HasMore {
					break
				}
				c.filter.Cursor = page.Next
			}
			if !slices.Equal(got, want) {
				t.Errorf("the pages have %v, want %v", got, want)
			}
			if c.searched && !searched {
				t.Error("no page says how far it got")
			}
		})
	}
}

// A cursor is that of one list with one filter.
func TestCursorsBelongToAFilter(t *testing.T) {
	t.Parallel()
	l, _ := crowded(t)
	page, err := l.Events(t.Context(), read.EventFilter{Type: "rare", Limit: 1})
	if err != nil || page.Next == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	for name, f := range map[string]read.EventFilter{
		"another type": {Type: "x", Cursor: page.Next}, "none": {Cursor: page.Next}, "no cursor": {Type: "rare", Cursor: "x"},
	} {
		if _, err := l.Events(t.Context(), f); !errors.Is(err, read.ErrCursor) {
			t.Errorf("%s: %v, want %v", name, err, read.ErrCursor)
		}
	}
	if _, err := l.Effects(t.Context(), read.EffectFilter{Cursor: page.Next}); !errors.Is(err, read.ErrCursor) {
		t.Errorf("another list: %v, want %v", err, read.ErrCursor)
	}
	if _, err := l.Events(t.Context(), read.EventFilter{Type: "rare", Since: time.UnixMilli(1), Cursor: page.Next}); err != nil {
		t.Errorf("with another time: %v", err) // --since 2h moves from page to page
	}
}

// Every way to name an event leads to it; where several answer, they are named and none is chosen.
func TestReferences(t *testing.T) {
	t.Parallel()
	b := newTenanted(t)
	event := func(key string) inbox.ID {
		t.Helper()
		id, err := b.Lister.Find(t.Context(), read.KindEvent, key)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := event("stripe/evt_1")
	whole := first.String()
	for _, ref := range []string{whole, strings.ToUpper(whole), "evt_1", whole[:35], strings.ReplaceAll(whole, "-", "")} {
		if got, err := b.Lister.Find(t.Context(), read.KindEvent, ref); err != nil || got != first {
			t.Errorf("%s is %s, %v; want %s", ref, got, err, first)
		}
	}
	storetest.Exec(t, b.Pool, `INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset,
			body_length, id_unsigned, suspected_replay)
		SELECT gen_random_uuid(), s.id, k.key, 'x', sha256('x'), now(), 'ok', 'default', gen_random_uuid(), 0, 0, 1, false, false
		FROM source s, (VALUES ('evt_1'), ('stripe/evt_1'), ($1)) k (key) WHERE s.name = 'github'`, whole)
	// What a sender calls its events takes no name away.
	for _, ref := range []string{whole, "stripe/evt_1"} {
		if got, err := b.Lister.Find(t.Context(), read.KindEvent, ref); err != nil || got != first {
			t.Errorf("%s is %s, %v; want %s, whatever other senders call theirs", ref, got, err, first)
		}
	}
	_, err := b.Lister.Find(t.Context(), read.KindEvent, "evt_1")
	several, ok := errors.AsType[*read.AmbiguousError](err)
	if !ok || len(several.Candidates) != 2 || !strings.Contains(err.Error(), "stripe/evt_1") || !strings.Contains(err.Error(), "github/evt_1") {
		t.Errorf("two senders' evt_1: %v", err)
	}
	next := map[bool]string{true: "0", false: "f"}[whole[35] == 'f']
	storetest.Exec(t, b.Pool, `UPDATE inbox_event SET id = $1 WHERE event_id = 'stripe/evt_1'`, whole[:35]+next)
	if _, err := b.Lister.Find(t.Context(), read.KindEvent, whole[:35]); !errors.Is(err, read.ErrAmbiguousReference) {
		t.Errorf("%s, with which two begin: %v", whole[:35], err)
	}
	if got, err := b.Lister.ForTenant("acme").Find(t.Context(), read.KindEvent, "evt_1"); err != nil || got != first {
		t.Errorf("evt_1 of acme is %s, %v; want %s", got, err, first)
	}
	for _, ref := range []string{"stripe/evt_1", whole, "evt_1"} {
		if _, err := b.Lister.ForTenant("globex").Find(t.Context(), read.KindEvent, ref); !errors.Is(err, inbox.ErrNotFound) {
			t.Errorf("%s of another tenant: %v, want %v", ref, err, inbox.ErrNotFound)
		}
		if _, err := b.Lister.ForTenant("globex").Event(t.Context(), ref); !errors.Is(err, inbox.ErrNotFound) {
			t.Errorf("showing %s of another tenant: %v, want %v", ref, err, inbox.ErrNotFound)
		}
	}
	effect, err := b.Lister.Find(t.Context(), read.KindEffect, "evt_2")
	if err != nil {
		t.Fatal(err)
	}
	if detail, err := b.Lister.Effect(t.Context(), effect); err != nil || detail.EventID != "evt_2" {
		t.Errorf("the effect of evt_2 is %+v, %v", detail, err)
	}
	if _, err := b.Lister.ForTenant("globex").Effect(t.Context(), effect); !errors.Is(err, inbox.ErrNotFound) {
		t.Errorf("showing an effect of another tenant: %v", err)
	}
}

// A list of a tenant holds nothing else, whatever it is narrowed by.
func TestScopedListsHoldNothingElse(t *testing.T) {
	t.Parallel()
	b := newTenanted(t)
	scoped := b.Lister.ForTenant("globex")
	page, err := scoped.Events(t.Context(), read.EventFilter{})
	if err != nil || fmt.Sprint(texts(page.Data, func(r read.EventRow) string { return r.EventID })) != "[evt_9 ~7 evt_3]" {
		t.Errorf("%+v, %v", page.Data, err)
	}
	if page, err := scoped.Events(t.Context(), read.EventFilter{Tenant: "acme"}); err != nil || len(page.Data) != 0 {
		t.Errorf("another tenant's events: %+v, %v", page.Data, err)
	}
	if page, err := scoped.Dead(t.Context(), read.DeadFilter{Tenant: "acme"}, read.PageRequest{}); err != nil || len(page.Data) != 0 {
		t.Errorf("another tenant's dead letters: %+v, %v", page.Data, err)
	}
	if page, err := scoped.Audit(t.Context(), read.AuditFilter{}); err != nil || len(page.Data) != 0 {
		t.Errorf("another tenant's audit: %+v, %v", page.Data, err)
	}
}

// Nothing can be written through the pool of lists.
func TestListPoolOnlyReads(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolList, 1)
	if _, err := pool.Exec(t.Context(), `DELETE FROM source`); err == nil || !strings.Contains(err.Error(), "read-only transaction") {
		t.Errorf("deleting through the pool of lists gave %v", err)
	}
}

// A count above the most that is counted says so.
func TestCountsEnd(t *testing.T) {
	t.Parallel()
	for count, want := range map[read.Count]string{0: "0", 999: "999", 10_000: "10,000", 10_001: "10,000+"} {
		if got := count.String(); got != want || count.Exact() != (count <= 10_000) {
			t.Errorf("%d rows are counted as %s, want %s", int(count), got, want)
		}
	}
}
