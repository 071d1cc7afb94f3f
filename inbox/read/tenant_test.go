package read_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/read"
)

// newTenanted is newBuried with tenants: the source stripe has acme, github has none, and two of
// the events of github were recorded for acme and for globex. Each kind of list has a row of
// both sources.
func newTenanted(t *testing.T) *storetest.Buried {
	t.Helper()
	b := storetest.NewBuried(t)
	storetest.Exec(t, b.Pool, `UPDATE source SET tenant = 'acme' WHERE name = 'stripe'`)
	storetest.Exec(t, b.Pool, `UPDATE inbox_event SET tenant = 'acme' WHERE event_id = 'guid_5'`)
	storetest.Exec(t, b.Pool, `UPDATE inbox_event SET tenant = 'globex' WHERE event_id IN ('~7', 'evt_3', 'evt_9')`)
	storetest.Exec(t, b.Pool, `INSERT INTO refusal (id, source_id, received_at, cause, diagnosis, whole, method, url, remote, size)
		SELECT gen_random_uuid(), id, now(), 'mismatch', name, false, 'POST', '/', '', 0 FROM source`)
	storetest.Exec(t, b.Pool, `INSERT INTO outbox (source, event_id, type, payload) SELECT name, name, 'x', '' FROM source`)
	storetest.Exec(t, b.Pool, `INSERT INTO conflict (id, event_id, source_id, payload_sha256, sha256, paths, type, sequence_key, sequence_number, id_unsigned,
			first_seen_at, last_seen_at, headers, body)
		SELECT gen_random_uuid(), id, source_id, sha256('y'), sha256('y'), '{}', type, '', '', false, now(), now(), '{}', 'y'
		FROM inbox_event WHERE event_id IN ('evt_1', 'evt_3', 'guid_5', 'guid_6')`)
	// Streams of evt_1 and guid_5, one of them with an effect that is held for a person.
	storetest.Exec(t, b.Pool, `UPDATE effect x SET sequence_key_hash = sha256(v.event_id::bytea) FROM inbox_event v WHERE v.id = x.event_id AND v.event_id IN ('evt_1', 'guid_5', 'guid_6')`)
	storetest.Exec(t, b.Pool, `INSERT INTO stream (route_id, key_hash, key_label)
		SELECT x.route_id, x.sequence_key_hash, v.event_id FROM effect x JOIN inbox_event v ON v.id = x.event_id WHERE x.sequence_key_hash IS NOT NULL ORDER BY x.id`)
	storetest.Exec(t, b.Pool, `UPDATE effect x SET state = 'held', reason = 'sequence_number_missing' FROM inbox_event v WHERE v.id = x.event_id AND v.event_id IN ('guid_5', 'guid_6')`)
	return b
}

// Every list can be narrowed to a tenant: that of the event or, where it has none, of its source.
func TestTenantNarrowsEveryList(t *testing.T) {
	t.Parallel()
	b := newTenanted(t)
	for what, list := range map[string]struct {
		rows func(tenant string) ([]string, error)
		want map[string]string // by tenant
	}{
		"events": {
			func(tenant string) ([]string, error) {
				rows, err := inboxtest.Rows(b.Lister.Events(t.Context(), read.EventFilter{Tenant: tenant}))
				return texts(rows, func(r read.EventRow) string { return r.EventID + "/" + r.Tenant }), err
			},
			map[string]string{
				"acme":   "evt_10/acme evt_8/acme guid_5/acme evt_4/acme evt_2/acme evt_1/acme",
				"globex": "evt_9/globex ~7/globex evt_3/globex", "nobody": "",
				"": "guid_11/ evt_10/acme evt_9/globex evt_8/acme ~7/globex guid_6/ guid_5/acme evt_4/acme evt_3/globex evt_2/acme evt_1/acme",
			},
		},
		"effects": {
			func(tenant string) ([]string, error) {
				rows, err := inboxtest.Rows(b.Lister.Effects(t.Context(), read.EffectFilter{Tenant: tenant}))
				return texts(rows, func(r read.EffectRow) string { return r.EventID + "/" + r.Tenant }), err
			},
			map[string]string{"acme": "evt_10/acme guid_5/acme evt_4/acme evt_2/acme evt_1/acme", "globex": "evt_9/globex evt_3/globex", "nobody": ""},
		},
		"dead letters": {
			func(tenant string) ([]string, error) {
				rows, err := inboxtest.Rows(b.Lister.Dead(t.Context(), read.DeadFilter{Tenant: tenant}, read.PageRequest{Limit: 50}))
				return texts(rows, func(r read.DeadRow) string { return r.EventID + "/" + r.Tenant }), err
			},
			map[string]string{"acme": "evt_8/acme evt_4/acme evt_2/acme evt_1/acme", "globex": "~7/globex evt_3/globex", "nobody": ""},
		},
		"groups of dead letters": {
			func(tenant string) ([]string, error) {
				groups, err := inboxtest.Rows(b.Lister.DeadGroups(t.Context(), read.DeadFilter{Tenant: tenant}))
				out := texts(groups, func(g read.DeadGroup) string { return g.Source + "/" + g.Reason })
				slices.Sort(out)
				return out, err
			},
			map[string]string{"globex": "github/unusable stripe/status_4xx", "nobody": ""},
		},
		"what would be discarded": {
			func(tenant string) ([]string, error) {
				found, err := decide.New(b.Effects).Discard(t.Context(), decide.Discard{Filter: read.DeadFilter{Tenant: tenant}, DryRun: true})
				return texts(found.Seen, func(s decide.Seen) string { return s.ID.String() }), err
			},
			map[string]string{"globex": b.IDs["evt_3"].String() + " " + b.IDs["~7"].String(), "nobody": ""},
		},
		"unknown outcomes": {
			func(tenant string) ([]string, error) {
				rows, err := b.Lister.Unknown(t.Context(), read.UnknownFilter{Tenant: tenant}, 50)
				return texts(rows, func(u read.Unknown) string { return u.Effect.String() }), err
			},
			map[string]string{"acme": "", "globex": b.IDs["evt_9"].String()},
		},
		"conflicts": {
			func(tenant string) ([]string, error) {
				rows, err := inboxtest.Rows(b.Lister.Conflicts(t.Context(), read.ConflictFilter{Tenant: tenant}))
				out := texts(rows, func(r read.ConflictRow) string { return r.EventID + "/" + r.Tenant })
				slices.Sort(out)
				return out, err
			},
			map[string]string{"acme": "evt_1/acme guid_5/acme", "globex": "evt_3/globex", "nobody": "", "": "evt_1/acme evt_3/globex guid_5/acme guid_6/"},
		},
		"refusals": {
			func(tenant string) ([]string, error) {
				rows, err := inboxtest.Rows(b.Lister.Refusals(t.Context(), read.RefusalFilter{Tenant: tenant}))
				out := texts(rows, func(r read.RefusalRow) string { return r.Source + "/" + r.Tenant })
				slices.Sort(out)
				return out, err
			},
			map[string]string{"acme": "stripe/acme", "globex": "", "": "github/ stripe/acme"},
		},
		"the outbox": {
			func(tenant string) ([]string, error) {
				rows, err := inboxtest.Rows(b.Lister.Outbox(t.Context(), read.OutboxFilter{Tenant: tenant}))
				return texts(rows, func(r read.OutboxRow) string { return r.Source }), err
			},
			map[string]string{"acme": "stripe", "globex": ""},
		},
		"streams": {
			func(tenant string) ([]string, error) {
				rows, err := inboxtest.Rows(b.Lister.Streams(t.Context(), read.StreamFilter{Tenant: tenant}))
				return texts(rows, func(r read.StreamRow) string { return r.Key }), err
			},
			map[string]string{"acme": "guid_5 evt_1", "globex": "", "": "guid_6 guid_5 evt_1"},
		},
		"what is held for a person": {
			func(tenant string) ([]string, error) {
				rows, err := inboxtest.Rows(b.Lister.Undecided(t.Context(), read.StreamFilter{Tenant: tenant}, 0))
				return texts(rows, func(u read.Undecided) string { return u.EventID }), err
			},
			map[string]string{"acme": "guid_5", "globex": "", "": "guid_5 guid_6"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for tenant, want := range list.want {
				rows, err := list.rows(tenant)
				switch got := strings.Join(rows, " "); {
				case err != nil:
					t.Errorf("%s: %v", tenant, err)
				case got != want:
					t.Errorf("of %q: %s, want %s", tenant, got, want)
				}
			}
		})
	}
}

func texts[T any](rows []T, text func(T) string) []string {
	out := make([]string, len(rows))
	for i, row := range rows {
		out[i] = text(row)
	}
	return out
}

// What is shown of one event, effect or refusal says whose it is.
func TestTenantIsShown(t *testing.T) {
	t.Parallel()
	b := newTenanted(t)
	event, err := b.Lister.Event(t.Context(), "stripe/evt_3")
	if err != nil || event.Tenant != "globex" {
		t.Errorf("the event is %q's (%v), want globex's", event.Tenant, err)
	}
	effect, err := b.Lister.Effect(t.Context(), b.IDs["evt_3"])
	if err != nil || effect.Tenant != "globex" {
		t.Errorf("the effect is %q's (%v), want globex's", effect.Tenant, err)
	}
	rows, err := inboxtest.Rows(b.Lister.Refusals(t.Context(), read.RefusalFilter{Source: "stripe"}))
	if err != nil || len(rows) != 1 {
		t.Fatalf("%v, %v", rows, err)
	}
	refusal, err := b.Lister.Refusal(t.Context(), rows[0].ID)
	if err != nil || refusal.Tenant != "acme" {
		t.Errorf("the refusal is %q's (%v), want acme's", refusal.Tenant, err)
	}
}
