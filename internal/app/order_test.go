package app_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

const orderedSettings = `
targets: { nothing: { kind: noop } }
sources:
  stripe:
    provider: stripe
    secrets: [env:STRIPE_SECRET]
    routes:
      - { name: own, target: nothing, order: { mode: latest, key: body.key, number: body.number, no_number: apply, no_key: apply } }
      - { name: header, target: nothing, order: { mode: latest, key: 'event.type + "/" + headers["content-type"]', number: event.occurred_at } }
      - { name: published, target: nothing, order: { mode: latest } }
      - { name: strict, target: nothing, order: { mode: contiguous, key: body.key, number: body.number, start: 1 } }
`

// Keys and numbers are read at admission, by the route's own expressions or by the
// catalogue, each number with one spelling, and what is missing is counted.
func TestSequencesAreReadAtAdmission(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	cat := catalogtest.Load(t)
	cfg, err := config.Load(config.Options{Catalog: cat, File: "oncegate.yml", Content: []byte(orderedSettings), Environ: []string{
		"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0", "STRIPE_SECRET=whsec_test",
	}})
	if err != nil {
		t.Fatal(err)
	}
	a := newApp(t, cfg)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	created := time.Now().Unix()
	written := []struct{ number, own, strict string }{
		{`7`, "7", "7"}, {`"0042"`, "42", "42"}, {`"7.50"`, "7.5", ""}, {`99999999999999999999`, "99999999999999999999", "99999999999999999999"},
		{`"2026-11-21T13:00:00.000000001+01:00"`, "1795262400000000001", "1795262400000000001"},
		{`null`, "", ""}, {`"soon"`, "", ""}, {`1.5`, "", ""}, {`[1]`, "", ""},
	}
	for i, w := range written {
		body := fmt.Appendf(nil, `{"id":"evt_%d","object":"event","created":%d,"type":"invoice.paid","data":{"object":{"id":"in_1"}},"key":"k%d","number":%s}`, i, created, i, w.number)
		status, err := rig.Deliver(t.Context(), client(), "http://"+a.PublicAddr().String()+"/in/stripe", "whsec_test", body)
		if err != nil || status != http.StatusOK {
			t.Fatalf("%s: %d, %v", w.number, status, err)
		}
	}
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	read := func(route, id string) (number string, hash []byte) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), `SELECT coalesce(e.sequence_number::text, ''), e.sequence_key_hash
			FROM effect e JOIN route r ON r.id = e.route_id JOIN inbox_event v ON v.id = e.event_id WHERE r.name = $1 AND v.event_id = $2`, route, id).Scan(&number, &hash); err != nil {
			t.Fatal(err)
		}
		return number, hash
	}
	for i, w := range written {
		id := fmt.Sprintf("evt_%d", i)
		if number, hash := read("own", id); number != w.own || w.own != "" && string(hash) != string(inbox.SequenceKeyHash("stripe", "own", fmt.Sprintf("k%d", i))) {
			t.Errorf("%s is %q with key %x, want %q", w.number, number, hash, w.own)
		}
		if number, _ := read("strict", id); number != w.strict {
			t.Errorf("where all numbers are waited for, %s is %q, want %q", w.number, number, w.strict)
		}
		nanoseconds := fmt.Sprintf("%d000000000", created)
		if number, hash := read("header", id); number != nanoseconds || string(hash) != string(inbox.SequenceKeyHash("stripe", "header", "invoice.paid/application/json; charset=utf-8")) {
			t.Errorf("by header: %q, %x", number, hash)
		}
		if number, hash := read("published", id); number != nanoseconds || string(hash) != string(inbox.SequenceKeyHash("stripe", "published", "in_1")) {
			t.Errorf("as published: %q, %x", number, hash)
		}
	}
	metrics := scrape(t, a)
	for _, want := range []string{
		`oncegate_order_missing_numbers_total{route="own",source="stripe"} 4`, `oncegate_order_missing_numbers_total{route="strict",source="stripe"} 5`,
		`oncegate_order_held_runnable_total{route="own",source="stripe"} 0`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("the metrics have no %s", want)
		}
	}
	// A series begins with its first event: no key is missing.
	if missing := `oncegate_order_missing_keys_total{`; strings.Contains(metrics, missing) {
		t.Errorf("the metrics have %s", missing)
	}
}
