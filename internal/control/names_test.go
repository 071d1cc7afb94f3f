package control_test

import (
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/session"
)

// Filters offer the names that exist and the types that came lately. An access that is limited to a tenant sees its own, and a list
// that is too long says so.
func TestNamesToChooseFrom(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 4)
	for _, sql := range []string{
		`INSERT INTO source (name, provider, class, tenant) VALUES ('shop', 'stripe', 'default', 'acme'), ('bank', 'stripe', 'default', '')`,
		`INSERT INTO route (source_id, name, target, kind, digest) VALUES (1, 'mails', 'post', 'mail', ''), (2, 'ledger', 'books', 'forward', '')`,
		`INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset, body_length, id_unsigned, suspected_replay)
			SELECT gen_random_uuid(), 1 + n % 2, 'e' || n, 'type' || n % 4, sha256('x'), now(), 'ok', 'default', gen_random_uuid(), 0, 0, 0, false, false FROM generate_series(1, 8) n`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	service, err := control.NewService(control.Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	names := func(access control.Access) string {
		t.Helper()
		got, err := control.Call(t.Context(), &control.Local{Service: service, Access: access}, &control.ShowNames, control.NoRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, some := range [][]string{got.Sources, got.Routes, got.Targets, got.Types, got.Incomplete} {
			all = append(all, strings.Join(some, " "))
		}
		return strings.Join(all, "|")
	}
	everything := control.Everything("ann")
	if got, want := names(everything), "bank shop|bank/ledger shop/mails|books post|type0 type1 type2 type3|"; got != want {
		t.Errorf("the names are %s, want %s", got, want)
	}
	ours := everything
	ours.Tenant = "acme"
	if got, want := names(ours), "shop|shop/mails||type0 type2|"; got != want {
		t.Errorf("a tenant sees %s, want %s", got, want)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO source (name, provider, class) SELECT 'source' || n, 'stripe', 'default' FROM generate_series(1, 500) n`); err != nil {
		t.Fatal(err)
	}
	if got := names(everything); !strings.HasSuffix(got, "|sources") || len(strings.Fields(strings.Split(got, "|")[0])) != 500 {
		t.Errorf("of 502 sources the names are %.200s", got)
	}
}
