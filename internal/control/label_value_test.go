package control_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/internal/session"
)

// A value alone is looked for under every declared label of the events that the access may see. If they have it under several,
// the answer names them, and never the value.
func TestAValueIsLookedForUnderEveryDeclaredLabel(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 4)
	for _, sql := range []string{
		`INSERT INTO source (name, provider, class) VALUES ('shop', 'stripe', 'default')`,
		`INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset, body_length, id_unsigned, suspected_replay, tenant)
			SELECT ('01990000-0000-7000-8000-00000000000' || n)::uuid, 1, 'evt_' || n, 't', sha256(''), now(), 'ok', 'default', gen_random_uuid(), 0, 0, 0, false, false,
				CASE n WHEN 4 THEN 'acme' ELSE 'other' END
			FROM generate_series(1, 5) n`,
		`INSERT INTO event_label (event_id, name, value)
			SELECT ('01990000-0000-7000-8000-00000000000' || n)::uuid, name, convert_to(value, 'UTF8')
			FROM (VALUES (1, 'orders', '1042'), (2, 'customer', '77'), (3, 'orders', '77'), (4, 'customer', '77'), (5, 'gone', '5')) v (n, name, value)`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	declared := &config.Config{Sources: []*config.Source{{Name: "shop", Labels: map[string]*expression.Program{"orders": nil, "customer": nil}}}}
	service, err := control.NewService(control.Config{Pool: pool, Settings: declared})
	if err != nil {
		t.Fatal(err)
	}
	bare, err := control.NewService(control.Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	all, theirs := control.Everything("ann"), control.Access{Actor: "ann", Scopes: control.Scopes{control.Admin}, Tenant: "acme"}
	blind := control.Access{Actor: "ann", Scopes: control.Scopes{control.ReadMetadata}}
	for name, c := range map[string]struct {
		service *control.Service
		access  control.Access
		label   string
		events  string
		code    control.Code
	}{
		"with its name":                {service, all, "orders=1042", "evt_1", ""},
		"alone":                        {service, all, "1042", "evt_1", ""},
		"nobody has it":                {service, all, "1043", "", ""},
		"under two labels":             {service, all, "77", "", control.CodeAmbiguous},
		"of one tenant, under one":     {service, theirs, "77", "evt_4", ""},
		"of another tenant":            {service, theirs, "1042", "", ""},
		"a label of no configuration":  {service, all, "5", "", ""},
		"the same with its name":       {service, all, "gone=5", "evt_5", ""},
		"without a configuration":      {bare, all, "1042", "", control.CodeInvalid},
		"with a name that is none":     {service, all, "Order=1", "", control.CodeInvalid},
		"longer than a value":          {service, all, strings.Repeat("7", 256), "", control.CodeInvalid},
		"without the scope to read it": {service, blind, "1042", "", control.CodeForbidden},
	} {
		caller := &control.Local{Service: c.service, Access: c.access}
		page, err := control.Call(t.Context(), caller, &control.ListEvents, control.ListEventsRequest{Label: c.label})
		var ids []string
		for i := range page.Data {
			ids = append(ids, page.Data[i].EventID)
		}
		problem, _ := errors.AsType[*control.Problem](err)
		switch got := strings.Join(ids, " "); {
		case c.code == "" && (err != nil || got != c.events):
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.events)
		case c.code != "" && (problem == nil || problem.Code != c.code):
			t.Errorf("%s: %q, %v; want %s", name, got, err, c.code)
		case c.code == control.CodeAmbiguous && (!strings.Contains(problem.Detail, "customer, orders") || strings.Contains(problem.Detail, c.label)):
			t.Errorf("%s: it says %q", name, problem.Detail)
		}
	}
}
