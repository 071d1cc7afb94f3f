package read_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/session"
)

const insertRoutesOfUnsettled = `
INSERT INTO route (source_id, name, target, kind, digest) VALUES (1, 'ledger', 'a', 'forward', ''), (1, 'mail', 'b', 'forward', ''), (2, 'ledger', 'c', 'forward', ''), (2, 'idle', 'd', 'forward', '')`

// insertUnsettled makes one event of a source and a tenant, with effects of a route: the first has the given id.
const insertUnsettled = `
WITH made AS (
    INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset, body_length, id_unsigned, suspected_replay, tenant)
    SELECT gen_random_uuid(), $1, gen_random_uuid()::text, 'x', sha256('x'), now(), 'ok', 'default', gen_random_uuid(), 0, 0, 1, false, false, nullif($4, '')
    RETURNING id)
INSERT INTO effect (id, event_id, route_id, item, state, reason, idempotency_key, route_version, finished_at, next_at)
SELECT CASE n WHEN 0 THEN $5::uuid ELSE (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 1, 15))::uuid END,
    id, $2, n, $3, 'gap', 'key', 1, CASE $3 WHEN 'done' THEN now() END, CASE $3 WHEN 'pending' THEN now() END
FROM made, generate_series(0, $6::int - 1) n`

// newUnsettled gives a lister, and what makes effects of a route that were recorded so long ago; all but the first are of now.
func newUnsettled(t *testing.T) (l *read.Lister, insert func(source, route int, state, tenant string, ago time.Duration, n int)) {
	t.Helper()
	url, schema := inboxtest.Schema(t)
	admin := inboxtest.Open(t, url, schema, session.PoolAdmin, 1)
	storetest.Exec(t, admin, `INSERT INTO source (name, provider, class) VALUES ('bank', 'stripe', 'default'), ('shop', 'stripe', 'default')`)
	storetest.Exec(t, admin, insertRoutesOfUnsettled)
	return read.NewLister(inboxtest.Open(t, url, schema, session.PoolList, 1)).WithBudget(time.Minute),
		func(source, route int, state, tenant string, ago time.Duration, n int) {
			storetest.Exec(t, admin, insertUnsettled, source, route, state, tenant, inbox.NewID(time.Now().Add(-ago)), n)
		}
}

func unsettledText(t *testing.T, l *read.Lister, f read.UnsettledFilter) string {
	t.Helper()
	found, err := l.Unsettled(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range found.Routes {
		line := fmt.Sprintf("%s/%s %d", r.Source, r.Route, r.Held)
		if r.HeldMore {
			line += "+"
		}
		if r.Oldest != nil {
			line += fmt.Sprintf(" %.0f h", time.Since(*r.Oldest).Hours())
		}
		out = append(out, line)
	}
	if found.More {
		out = append(out, "more")
	}
	return strings.Join(out, ", ")
}

// What is held is counted, and the oldest effect is found in whatever state it waits.
func TestUnsettled(t *testing.T) {
	t.Parallel()
	l, insert := newUnsettled(t)
	if got := unsettledText(t, l, read.UnsettledFilter{}); got != "" {
		t.Errorf("without effects: %s", got)
	}
	for i, state := range []string{"done", "held", "pending"} {
		insert(1, 1, state, "", time.Duration(9-i)*time.Hour, 1)
	}
	insert(1, 1, "held", "acme", 2*time.Hour, 1)
	insert(1, 2, "dead", "", 5*time.Hour, 1)
	insert(1, 2, "indeterminate", "acme", 4*time.Hour, 1)
	insert(1, 2, "held", "", 3*time.Hour, 1)
	insert(2, 3, "pending", "acme", 6*time.Hour, 1)
	insert(2, 4, "done", "acme", 6*time.Hour, 1)
	for filter, want := range map[read.UnsettledFilter]string{
		{}:                              "bank/ledger 2 8 h, bank/mail 1 5 h, shop/ledger 0 6 h",
		{Source: "bank"}:                "bank/ledger 2 8 h, bank/mail 1 5 h",
		{Route: "ledger"}:               "bank/ledger 2 8 h, shop/ledger 0 6 h",
		{Source: "shop", Route: "idle"}: "",
	} {
		if got := unsettledText(t, l, filter); got != want {
			t.Errorf("%+v: %s, want %s", filter, got, want)
		}
	}
	if got, want := unsettledText(t, l.ForTenant("acme"), read.UnsettledFilter{}), "bank/ledger 1 2 h, bank/mail 0 4 h, shop/ledger 0 6 h"; got != want {
		t.Errorf("of a tenant: %s, want %s", got, want)
	}
}

// However much waits, no more than the bound is looked at, and what was not is said.
func TestUnsettledIsBounded(t *testing.T) {
	t.Parallel()
	l, insert := newUnsettled(t)
	insert(1, 1, "held", "", 8*time.Hour, read.MaxUnsettledSeen)
	if got, want := unsettledText(t, l, read.UnsettledFilter{}), "bank/ledger 10000 8 h"; got != want {
		t.Errorf("at the bound: %s, want %s", got, want)
	}
	insert(1, 1, "held", "acme", 0, 1)
	if got, want := unsettledText(t, l, read.UnsettledFilter{}), "bank/ledger 10000+ 8 h"; got != want {
		t.Errorf("beyond the bound: %s, want %s", got, want)
	}
	insert(1, 2, "dead", "", 5*time.Hour, read.MaxUnsettledSeen+1)
	if got, want := unsettledText(t, l.ForTenant("acme"), read.UnsettledFilter{Route: "mail"}), "more"; got != want {
		t.Errorf("of a tenant behind 10,001 dead effects of others: %s, want %s", got, want)
	}
	insert(2, 3, "pending", "", 6*time.Hour, read.MaxUnsettledSeen+1)
	if got, want := unsettledText(t, l, read.UnsettledFilter{Source: "shop"}), "shop/ledger 0 6 h, more"; got != want {
		t.Errorf("more than the bound is due: %s, want %s", got, want)
	}
	if got := unsettledText(t, l.WithBudget(-1), read.UnsettledFilter{}); !strings.HasSuffix(got, "more") {
		t.Errorf("without time: %s, want that not all was looked at", got)
	}
}

// What is held and what is at rest is read from the index alone, and what is due in the order of its index: as the statement is planned
// for its arguments and for any, on tables that the planner knows and on tables that it has never seen.
func TestPlansOfUnsettled(t *testing.T) {
	t.Parallel()
	for name, analysed := range map[string]bool{"analysed": true, "never analysed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, schema := inboxtest.Schema(t)
			admin := inboxtest.Open(t, url, schema, session.PoolAdmin, 1)
			inboxtest.Source(t, admin, "stripe")
			if analysed {
				storetest.Crowd(t, admin)
			}
			p := newPlanner(t, url, schema)
			for _, tenant := range []string{"", "acme"} {
				l := read.NewLister(p.pool).ForTenant(tenant)
				if _, err := l.Unsettled(t.Context(), read.UnsettledFilter{Source: "stripe", Route: "ledger"}); err != nil {
					t.Fatal(err)
				}
				asked := p.asked.take()
				if len(asked) != 1 {
					t.Fatalf("%d statements, want one", len(asked))
				}
				for _, plan := range p.plans(t, asked[0]) {
					wants := []string{"Index Only Scan using effect_held_idx", "Index Only Scan using effect_rest_idx", "Index Scan using effect_due_idx"}
					if tenant != "" {
						wants = []string{"Index Scan using effect_held_idx", "Index Scan using effect_rest_idx", "Index Scan using effect_due_idx", "inbox_event_pkey"}
					}
					for _, want := range wants {
						if !strings.Contains(plan, want) {
							t.Errorf("tenant %q: the plan has no %q:\n%s", tenant, want, plan)
						}
					}
					for _, bad := range []string{"Seq Scan on effect", "Seq Scan on inbox_event", "Bitmap"} {
						if strings.Contains(plan, bad) {
							t.Errorf("tenant %q: the plan has a %s:\n%s", tenant, bad, plan)
						}
					}
				}
			}
		})
	}
}
