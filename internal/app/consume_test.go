package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/pause"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/broker/brokertest"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// consumption is an inbox that consumes from a broker, with a target that notes what it gets.
type consumption struct {
	server      *brokertest.Server
	place       string
	url, schema string
	pool        *pgxpool.Pool
	target      *httptest.Server

	mu   sync.Mutex
	keys map[string]int // requests by their idempotency keys
	got  []string       // bodies in the order of their arrival
}

func newConsumption(t *testing.T, s *brokertest.Server, partitions int) *consumption {
	t.Helper()
	c := &consumption{server: s, place: s.NewPlace(t, partitions), keys: map[string]int{}}
	c.url, c.schema = inboxtest.Schema(t)
	c.pool = inboxtest.Open(t, c.url, c.schema, session.PoolAdmin, 4)
	c.target = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.keys[r.Header.Get("Idempotency-Key")]++
		c.got = append(c.got, string(body))
	}))
	t.Cleanup(c.target.Close)
	return c
}

// settings loads a configuration in which $from is where the source consumes and $target the target.
func (c *consumption) settings(t *testing.T, content string) *config.Config {
	t.Helper()
	content = strings.NewReplacer("$from", fmt.Sprintf(`{ url: %q, %s: %s, group: g }`, c.server.URL, c.server.PlaceKey(), c.place), "$target", c.target.URL).Replace(content)
	cfg, err := config.Load(config.Options{Catalog: catalogtest.Load(t), File: "oncegate.yml", Content: []byte(content), Environ: []string{
		"DATABASE_URL=" + c.url, "ONCEGATE_SCHEMA=" + c.schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0", "ONCEGATE_SWEEP_EVERY=1s", "STRIPE_SECRET=whsec_test",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// start starts a process; stop may be called twice.
func (c *consumption) start(t *testing.T, settings *config.Config, through func(string, broker.Consumer) broker.Consumer) (a *app.App, stop func()) {
	t.Helper()
	cfg := app.Config{Settings: settings, Logger: slog.New(slog.DiscardHandler), Receive: true, Work: true, Version: "test"}
	cfg.ConsumeThrough(through)
	a, err := app.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return a, stop
}

func (c *consumption) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := c.pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// attributes are the headers of a CloudEvent with an id.
func (c *consumption) attributes(id string) map[string]string {
	prefix := map[broker.Kind]string{broker.Kafka: "ce_", broker.NATS: "ce-", broker.RabbitMQ: "cloudEvents:"}[c.server.Kind]
	return map[string]string{prefix + "specversion": "1.0", prefix + "id": id, prefix + "source": "/orders", prefix + "type": "order.paid"}
}

// dying is the connection of a process that is killed after a commit and before its acknowledgement.
type dying struct {
	broker.Consumer
	kind   broker.Kind
	groups int // how many groups are acknowledged
	killed chan struct{}
}

var errKilled = errors.New("killed")

func (d *dying) Done(ctx context.Context, messages []broker.Received) error {
	if d.groups--; d.groups >= 0 {
		return d.Consumer.Done(ctx, messages)
	}
	select {
	case <-d.killed:
	default:
		close(d.killed)
	}
	if d.kind == broker.NATS { // it would deliver them again after a minute
		_ = d.Consumer.Return(ctx, messages)
	}
	return errKilled
}

func (d *dying) Take(ctx context.Context, n int) ([]broker.Received, error) {
	if d.groups < 0 {
		return nil, errKilled
	}
	return d.Consumer.Take(ctx, n)
}

const oneRoute = `
targets: { shop: { kind: forward, url: "$target", idempotent: true } }
sources:
  orders: { from: $from, routes: [{ name: ship, target: shop }] }
`

// TestMessagesAreRecordedOnce consumes 2,000 messages, among them duplicates, conflicts and messages that cannot be used. A
// process is killed between a commit and its acknowledgement, and another one consumes the rest.
func TestMessagesAreRecordedOnce(t *testing.T) {
	t.Parallel()
	for _, s := range brokertest.Servers(t) {
		t.Run(string(s.Kind), func(t *testing.T) {
			t.Parallel()
			c := newConsumption(t, s, 4)
			const unique, duplicates, conflicts, unusable = 1600, 200, 100, 100
			var messages []brokertest.Message
			add := func(id, body string) {
				messages = append(messages, brokertest.Message{Key: fmt.Sprint("k-", len(messages)%50), Headers: c.attributes(id), Body: []byte(body)})
			}
			for i := range unique {
				id := fmt.Sprint("m-", i)
				add(id, `{"n":`+fmt.Sprint(i)+`}`)
				switch {
				case i < duplicates:
					add(id, `{"n":`+fmt.Sprint(i)+`}`)
				case i < duplicates+conflicts:
					messages[len(messages)-1].Key = "conflict" // one partition, so that the first of the two is first
					add(id, `{"n":"another"}`)
					messages[len(messages)-1].Key = "conflict"
				case i < duplicates+conflicts+unusable:
					add(strings.Repeat("x", 300)+fmt.Sprint(i), fmt.Sprintf(`{"unusable":%d}`, i))
				}
			}
			s.Publish(t, c.place, messages...)

			settings := c.settings(t, oneRoute)
			first := &dying{kind: s.Kind, groups: 2, killed: make(chan struct{})}
			_, stop := c.start(t, settings, func(_ string, from broker.Consumer) broker.Consumer {
				first.Consumer = from
				return first
			})
			select {
			case <-first.killed:
			case <-time.After(time.Minute):
				t.Fatal("the first process did not get so far")
			}
			stop()
			before := c.count(t, `SELECT count(*) FROM inbox_event`)
			if before == 0 || before >= unique {
				t.Fatalf("the first process has recorded %d events", before)
			}

			a, _ := c.start(t, settings, nil)
			inboxtest.UntilWithin(t, 2*time.Minute, "the second process consumes the rest and carries it out", func() bool {
				return c.count(t, `SELECT count(*) FROM inbox_event WHERE admission = 'unusable'`) == unusable && c.count(t, `SELECT count(*) FROM effect WHERE state = 'done'`) == unique
			})
			inboxtest.Until(t, "the broker has nothing left", func() bool {
				return strings.Contains(scrape(t, a), "\noncegate_broker_lag_messages{source=\"orders\"} 0\n") || c.lag(t) == 0
			})
			if n := c.count(t, `SELECT count(*) FROM inbox_event`); n != unique+unusable {
				t.Errorf("%d events of %d", n, unique+unusable)
			}
			if n := c.count(t, `SELECT count(*) FROM inbox_event WHERE conflicts > 0`); n != conflicts {
				t.Errorf("%d conflicts of %d", n, conflicts)
			}
			if n := c.count(t, `SELECT sum(deliveries)::int FROM inbox_event WHERE admission = 'ok'`); n < unique+duplicates {
				t.Errorf("%d deliveries of at least %d", n, unique+duplicates)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			for key, n := range c.keys {
				if n != 1 {
					t.Errorf("the target got key %s %d times", key, n)
				}
			}
			if len(c.keys) != unique {
				t.Errorf("the target got %d keys of %d", len(c.keys), unique)
			}
		})
	}
}

// lag asks the broker how many messages the group has not finished.
func (c *consumption) lag(t *testing.T) int64 {
	t.Helper()
	from, err := broker.NewConsumer(c.server.Config(t, c.place, "g"))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	lag, err := from.Lag(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lag
}

// TestMessagesInOrder checks that effects in the order of arrival are carried out in the order of each lane, while processes
// come and go.
func TestMessagesInOrder(t *testing.T) {
	t.Parallel()
	for _, s := range brokertest.Servers(t) {
		t.Run(string(s.Kind), func(t *testing.T) {
			t.Parallel()
			c := newConsumption(t, s, 4)
			settings := c.settings(t, `
targets: { shop: { kind: forward, url: "$target", idempotent: true } }
sources:
  orders: { from: $from, routes: [{ name: ship, target: shop, order: { mode: arrival } }] }
`)
			const keys, each = 4, 75
			publish := func(from, to int) {
				var messages []brokertest.Message
				for n := from; n < to; n++ {
					for key := range keys {
						messages = append(messages, brokertest.Message{Key: fmt.Sprint("k-", key), Body: fmt.Appendf(nil, `{"key":%d,"n":%d}`, key, n)})
					}
				}
				s.Publish(t, c.place, messages...)
			}
			done := func(n int) func() bool {
				return func() bool { return c.count(t, `SELECT count(*) FROM effect WHERE state = 'done'`) >= n }
			}
			publish(0, 25)
			_, stopFirst := c.start(t, settings, nil)
			inboxtest.Until(t, "the first process carries something out", done(1))
			publish(25, 50)
			c.start(t, settings, nil)
			inboxtest.Until(t, "both processes have begun", done(keys*30))
			publish(50, each)
			stopFirst()
			inboxtest.UntilWithin(t, 3*time.Minute, "everything is carried out", done(keys*each))
			c.mu.Lock()
			defer c.mu.Unlock()
			next := map[int]int{}
			for _, body := range c.got {
				var m struct{ Key, N int }
				if err := json.Unmarshal([]byte(body), &m); err != nil {
					t.Fatal(err)
				}
				if m.N != next[m.Key] {
					t.Fatalf("number %d of key %d came, and %d is next", m.N, m.Key, next[m.Key])
				}
				next[m.Key]++
			}
			if n := c.count(t, `SELECT count(*) FROM stream`); s.Kind == broker.NATS && n != 1 {
				t.Errorf("%d streams of one lane", n)
			}
		})
	}
}

// TestSourceOfABroker checks what becomes of messages that are too large or carry an id in the payload, that a source of
// messages is not served over HTTP, and that a pause stops it.
func TestSourceOfABroker(t *testing.T) {
	t.Parallel()
	for _, s := range brokertest.Servers(t) {
		t.Run(string(s.Kind), func(t *testing.T) {
			t.Parallel()
			c := newConsumption(t, s, 1)
			a, _ := c.start(t, c.settings(t, `
targets: { nothing: { kind: noop } }
providers:
  order: { extends: message, identity: { candidates: [{ json: order.id }, { header: Oncegate-Broker-Position }] } }
sources:
  orders: { provider: order, max_body: 1KiB, from: $from, tenant: acme, routes: [{ name: nothing, target: nothing }] }
`), nil)
			s.Publish(t, c.place,
				brokertest.Message{Body: []byte(`{"order":{"id":"o-1"}}`), ID: "1"},
				brokertest.Message{Body: []byte(`{"order":{}}`), ID: "2", Headers: map[string]string{"Oncegate-Broker-Position": "forged"}},
				brokertest.Message{Body: []byte(`{"order":{"id":"o-3"},"rest":"` + strings.Repeat("x", 2000) + `"}`), ID: "3"},
				brokertest.Message{Body: []byte(`{"order":{"id":"o-4"},"rest":"` + strings.Repeat("x", 2000) + `"}`), ID: "4"},
				brokertest.Message{Body: []byte(`{"order":{"id":"o-1"}}`), ID: "5"},
			)
			inboxtest.Until(t, "the messages are recorded", func() bool {
				return c.count(t, `SELECT coalesce(sum(deliveries), 0)::int FROM inbox_event`) == 5
			})
			if n := c.count(t, `SELECT count(*) FROM inbox_event WHERE event_id = 'o-1' AND deliveries = 2`); n != 1 {
				t.Error("the id in the payload was not read")
			}
			if n := c.count(t, `SELECT count(*) FROM inbox_event WHERE event_id = 'forged'`); n != 0 {
				t.Error("a message has chosen its position")
			}
			if n := c.count(t, `SELECT count(*) FROM inbox_event e JOIN inbox_body b ON b.id = e.body_id WHERE e.admission = 'unusable' AND octet_length(b.body) < 1000 AND e.admission_detail LIKE 'too large%'`); n != 2 {
				t.Errorf("%d of 2 messages that are too large are dead letters", n)
			}
			if status := post(t, a, "orders", `{"order":{"id":"o-9"}}`, nil); status != http.StatusNotFound {
				t.Errorf("a POST to the source is answered with %d", status)
			}
			metrics := scrape(t, a)
			for _, line := range []string{
				`oncegate_broker_messages_total{outcome="acknowledged",source="orders"} 5`, `oncegate_broker_failing_seconds{source="orders"} 0`,
				`oncegate_deliveries_total{outcome="duplicate",source="orders",tenant="acme"} 1`, `oncegate_deliveries_total{outcome="unusable",source="orders",tenant="acme"} 2`,
			} {
				if !strings.Contains(metrics, "\n"+line+"\n") {
					t.Errorf("no metric %s", line)
				}
			}

			thing := pause.Thing{Kind: pause.Source, Name: "orders"}
			if _, err := pause.Set(t.Context(), c.pool, thing, pause.Decision{Actor: "ann", Reason: "a test"}); err != nil {
				t.Fatal(err)
			}
			<-time.After(2 * pause.Every) // the process reads the pauses each second
			s.Publish(t, c.place, brokertest.Message{Body: []byte(`{"order":{"id":"o-6"}}`), ID: "6"})
			inboxtest.Until(t, "the message waits at the broker", func() bool { return c.lag(t) == 1 })
			if n := c.count(t, `SELECT count(*) FROM inbox_event WHERE event_id = 'o-6'`); n != 0 {
				t.Error("a paused source has consumed a message")
			}
			if err := pause.Lift(t.Context(), c.pool, thing, pause.Decision{Actor: "ann", Reason: "a test"}); err != nil {
				t.Fatal(err)
			}
			inboxtest.Until(t, "the message is recorded after the pause", func() bool {
				return c.count(t, `SELECT count(*) FROM inbox_event WHERE event_id = 'o-6'`) == 1
			})
		})
	}
}

// post sends a request to a source.
func post(t *testing.T, a *app.App, source, body string, header http.Header) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+a.PublicAddr().String()+"/in/"+source, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(request.Header, header)
	response, err := client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// TestBridgedWebhooks checks that whole webhooks that come through a broker are verified: with the time at which the broker got
// them, and those that do not verify are refusals and are not delivered again.
func TestBridgedWebhooks(t *testing.T) {
	t.Parallel()
	s := brokertest.Kafka(t)
	c := newConsumption(t, s, 1)
	settings := c.settings(t, `
sources:
  stripe: { provider: stripe, secrets: [env:STRIPE_SECRET], from: $from }
`)
	source := settings.Sources[0]
	webhook := func(id string, at time.Time, secret string) (brokertest.Message, *providers.Request) {
		r := &providers.Request{
			Method: http.MethodPost, Header: http.Header{"Content-Type": {"application/json"}}, ReceivedAt: at,
			Body: fmt.Appendf(nil, `{"id":"%s","object":"event","created":%d,"type":"invoice.paid"}`, id, at.Unix()),
		}
		key := source.Keys()[0]
		key.Value = []byte(secret)
		if err := source.Provider.Sign(r, key, id); err != nil {
			t.Fatal(err)
		}
		m := brokertest.Message{Body: r.Body, Headers: map[string]string{}}
		for name := range r.Header {
			m.Headers[name] = r.Header.Get(name)
		}
		return m, r
	}
	good, over := webhook("evt_1", time.Now(), "whsec_test")
	forged, _ := webhook("evt_2", time.Now(), "whsec_other")
	late, _ := webhook("evt_3", time.Now().Add(-time.Hour), "whsec_test")
	s.Publish(t, c.place, good, forged, late, good)
	a, _ := c.start(t, settings, nil)
	inboxtest.Until(t, "the messages are settled", func() bool {
		return c.count(t, `SELECT coalesce(sum(deliveries), 0)::int FROM inbox_event`) == 2 && c.count(t, `SELECT count(*) FROM refusal WHERE whole`) == 2
	})
	inboxtest.Until(t, "all are acknowledged", func() bool { return c.lag(t) == 0 })
	if n := c.count(t, `SELECT count(*) FROM refusal WHERE whole AND cause = 'stale'`); n != 1 {
		t.Errorf("%d messages that were signed an hour before the broker got them are stale, want 1", n)
	}
	if status := post(t, a, "stripe", string(over.Body), over.Header); status != http.StatusOK {
		t.Errorf("a source with secrets answers a delivery over HTTP with %d", status)
	}
}

// TestWaitedMessages checks that a signed time is compared with the time at which the broker got the message, and not with now.
func TestWaitedMessages(t *testing.T) {
	t.Parallel()
	s := brokertest.Kafka(t)
	c := newConsumption(t, s, 1)
	settings := c.settings(t, `
sources:
  stripe: { provider: stripe, secrets: [env:STRIPE_SECRET], from: $from }
`)
	r := &providers.Request{
		Method: http.MethodPost, Header: http.Header{"Content-Type": {"application/json"}}, ReceivedAt: time.Now(),
		Body: []byte(`{"id":"evt_1","object":"event","created":1,"type":"invoice.paid"}`),
	}
	if err := settings.Sources[0].Provider.Sign(r, settings.Sources[0].Keys()[0], "evt_1"); err != nil {
		t.Fatal(err)
	}
	s.Publish(t, c.place, brokertest.Message{Body: r.Body, Headers: map[string]string{"Stripe-Signature": r.Header.Get("Stripe-Signature")}})
	cfg := app.Config{Settings: settings, Logger: slog.New(slog.DiscardHandler), Receive: true, Version: "test"}
	cfg.ReceiveAs(func() time.Time { return time.Now().Add(24 * time.Hour) }, func(string) providers.Fetcher { return nil }) // a day later
	a, err := app.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Stop(context.WithoutCancel(t.Context())) })
	inboxtest.Until(t, "the message is recorded", func() bool { return c.count(t, `SELECT count(*) FROM inbox_event`) == 1 })
}

// TestUnreachableBroker checks that a broker that is down affects neither readiness nor other sources, and is told.
func TestUnreachableBroker(t *testing.T) {
	t.Parallel()
	s := brokertest.NATS(t)
	c := newConsumption(t, s, 1)
	a, _ := c.start(t, c.settings(t, `
sources:
  orders: { from: $from }
  gone: { from: { url: "kafka://127.0.0.1:1", topic: orders } }
  missing: { from: { url: "`+s.URL+`", stream: missing } }
`), nil)
	inboxtest.Until(t, "the process is ready", func() bool { return a.Ready(t.Context()) == nil })
	s.Publish(t, c.place, brokertest.Message{Body: []byte(`{}`)})
	inboxtest.Until(t, "the other source consumes", func() bool { return c.count(t, `SELECT count(*) FROM inbox_event`) == 1 })
	inboxtest.Until(t, "both failures are shown", func() bool {
		metrics := scrape(t, a)
		return !strings.Contains(metrics, `oncegate_broker_failing_seconds{source="gone"} 0`) && !strings.Contains(metrics, `oncegate_broker_failing_seconds{source="missing"} 0`) &&
			strings.Contains(metrics, `oncegate_broker_failing_seconds{source="orders"} 0`)
	})
	inboxtest.Until(t, "the failures are in the row of the process", func() bool {
		return c.count(t, `SELECT count(*) FROM node n, jsonb_array_elements(n.consumers) c JOIN source s ON s.id = (c->>'source')::int
			WHERE s.name = 'gone' AND c->>'error' LIKE 'no connection to the broker%' OR s.name = 'missing' AND c->>'error' LIKE '%there is no stream missing'`) == 2
	})
}

// TestTakeOverOfConsumers checks that two Apps of one process, as in a reload, may consume at once.
func TestTakeOverOfConsumers(t *testing.T) {
	t.Parallel()
	for _, s := range brokertest.Servers(t) {
		t.Run(string(s.Kind), func(t *testing.T) {
			t.Parallel()
			c := newConsumption(t, s, 2)
			settings := c.settings(t, oneRoute)
			first, stop := c.start(t, settings, nil)
			published := 0
			publish := func() {
				var messages []brokertest.Message
				for range 50 {
					published++
					messages = append(messages, brokertest.Message{Key: fmt.Sprint("k-", published%7), Headers: c.attributes(fmt.Sprint("m-", published)), Body: []byte(`{}`)})
				}
				s.Publish(t, c.place, messages...)
			}
			publish()
			inboxtest.Until(t, "the first App consumes", func() bool { return c.count(t, `SELECT count(*) FROM inbox_event`) > 0 })
			second, err := app.Open(t.Context(), app.Config{Settings: settings, Logger: slog.New(slog.DiscardHandler), Receive: true, Work: true, Version: "test"})
			if err != nil {
				t.Fatal(err)
			}
			if err := second.Assemble(t.Context(), app.Parts{Listen: true, After: first}); err != nil {
				t.Fatal(err)
			}
			publish()
			if err := second.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := second.Stop(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			})
			publish()
			stop()
			publish()
			inboxtest.UntilWithin(t, 2*time.Minute, "all messages are recorded and carried out", func() bool {
				return c.count(t, `SELECT count(*) FROM effect WHERE state = 'done'`) == published
			})
			c.mu.Lock()
			defer c.mu.Unlock()
			if len(c.got) != published {
				t.Errorf("the target got %d requests for %d messages", len(c.got), published)
			}
		})
	}
}
