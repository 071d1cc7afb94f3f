package app_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/rollup"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/internal/session"
)

// An event has the labels that can be made of it. One that cannot is counted, and the event is recorded all the same.
func TestLabelThatFailsRefusesNothing(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(target.Close)
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	cfg := settings(t, url, schema, target.URL)
	cfg.Sources[0].Labels = map[string]*expression.Program{}
	for name, source := range map[string]string{
		"object": "body.object", "kind": "event.type", "absent": "body.absent.deeper", "failing": "body.object + 1", "list": "[body.object]",
	} {
		program, err := expression.Compile(source, expression.Value)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Sources[0].Labels[name] = program
	}
	a := newApp(t, cfg)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status := deliver(t, cfg, a, "evt_1"); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := pool.QueryRow(t.Context(), `SELECT string_agg(name || '=' || convert_from(value, 'UTF8'), ' ' ORDER BY name)
		FROM (SELECT name, value FROM event_label UNION ALL SELECT k.* FROM event_label_batch b CROSS JOIN LATERAL unnest(b.name, b.value) k (name, value)) l`).Scan(&got); err != nil {
		t.Fatal(err)
	}
	if want := "kind=invoice.paid object=event"; got != want {
		t.Errorf("the labels are %q, want %q", got, want)
	}
	sums, err := rollup.NewReader(pool).Sums(t.Context(), rollup.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if n := sums.Total().LabelErrors; n != 2 {
		t.Errorf("%d labels could not be made, want 2", n)
	}
}
