package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/broker/brokertest"
	"github.com/oncegate/oncegate/internal/trials/prometheustest"
)

const alertsFile = `
targets:
  down: { kind: forward, url: env:DOWN, idempotent: true, breaker: { failures: 1, open: 1s }, retry: { base: 1s, max: 1s } }
  refusing: { kind: forward, url: env:REFUSING, idempotent: true }
  unsure: { kind: forward, url: env:UNSURE, idempotent: false, breaker: off }
sources:
  shop:
    provider: standard-webhooks
    secrets: [{ env: SECRET, until: "%s" }]
    routes:
      - { name: ship, types: [ship], target: down }
      - { name: pay, types: [pay], target: unsure }
      - { name: bill, types: [bill], target: refusing }
  code: { provider: gitlab, secrets: [env:SECRET], routes: [{ name: build, target: unsure }] }
`

// brokersFile adds a source whose broker is not there, one that takes fewer messages than its broker has, and a buffer that is
// not there.
const brokersFile = `
  gone: { from: { url: "kafka://127.0.0.1:1", topic: orders } }
  queued: { deliveries: 1/h, from: { url: "%s", stream: %s } }
buffer: { url: "nats://127.0.0.1:1", replicas: 1 }
`

// alertsAtOnce are the alerts of the faults in TestAlertsFire, whose clock is right.
func alertsAtOnce() []string {
	return []string{
		"OncegateIsDown", "OncegateIsNotReady", "OncegateDoesNotRecord", "OncegateUnknownOutcomes", "OncegateDeadLetters", "OncegateTargetIsDown", "OncegateBrokerFails", "OncegateBrokerLag", "OncegateBuffering", "OncegateBufferFails", "OncegateConflicts", "OncegateRefusals",
		"OncegateSenderGivesUp", "OncegateSourceIsSilent", "OncegateSecretExpires", "OncegateUnroutedEvents", "OncegateDuplicates", "OncegateStranded", "OncegateScheduledTooFarAhead",
		"OncegatePausedFromOutside",
	}
}

// The rules for alerts fire during the fault that they are for. Prometheus's own promtool evaluates them on series of real processes.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	prometheustest.Promtool(t)
	o := newObserved(t)
	nats := brokertest.NATS(t)
	waiting := nats.NewPlace(t, 1)
	nats.Publish(t, waiting, slices.Repeat([]brokertest.Message{{Body: []byte("{}")}}, 1200)...)
	file := fmt.Sprintf(alertsFile, o.until.UTC().Format(time.RFC3339)) + fmt.Sprintf(brokersFile, nats.URL, waiting)
	o.serve(t, file, nil)
	o.recorded.Keep(o.awaited(t, `oncegate_ready{check="gate"} 1`), 30)

	o.deliver(t, "shop", "evt_ship", `{"type":"ship"}`, false)
	o.deliver(t, "shop", "evt_pay", `{"type":"pay"}`, false)
	o.deliver(t, "shop", "evt_pay", `{"type":"pay","amount":2}`, false)
	o.deliver(t, "shop", "evt_bill", `{"type":"bill"}`, false)
	o.deliver(t, "shop", "evt_other", `{"type":"other"}`, false)
	for range 25 {
		o.deliver(t, "shop", "evt_other", `{"type":"other"}`, false)
		o.deliver(t, "shop", "evt_forged", `{"type":"pay"}`, true)
		o.deliver(t, "code", "evt_forged", `{"object_kind":"push"}`, true)
	}
	o.awaited(t, `oncegate_indeterminate_effects_total{route="pay",source="shop",target="unsure"} 1`)
	open := o.awaited(t, `oncegate_breaker_state{state="open",target="down"} 1`)
	halfOpen := o.awaited(t, `oncegate_breaker_state{state="half_open",target="down"} 1`)
	for range 10 {
		o.recorded.Keep(open, 1)
		o.recorded.Keep(halfOpen, 1)
	}

	// What is read from the database is there when the next process starts.
	inboxtest.Until(t, "a dead letter", func() bool {
		dead := false
		err := o.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM effect WHERE state = 'dead')`).Scan(&dead)
		return err == nil && dead
	})
	o.exec(t, `UPDATE effect SET next_at = now() + interval '2 years' WHERE state = 'retry'`)
	inboxtest.Until(t, "a time that is brought back", func() bool {
		found := o.scrape(t)
		n, err := strconv.Atoi(found[`oncegate_times_pulled_back_total{instance="oncegate-1:8081"}`])
		return err == nil && n > 0
	})
	o.recorded.Keep(o.scrape(t), 10)
	o.exec(t, `UPDATE river_queue SET paused_at = now() WHERE name = (SELECT min(name) FROM river_queue)`)
	o.exec(t, `
INSERT INTO stat_hour (hour, source_id, route_id, tenant, kind, n)
SELECT date_trunc('hour', now()) - h * interval '1 hour', id, 0, '', 'recorded', 10 FROM source, generate_series(5, 100) h WHERE name = 'code'`)
	o.exec(t, `
INSERT INTO stat_source (source_id, tenant, first_event_at, last_event_at)
SELECT id, '', now() - interval '100 hours', now() - interval '5 hours' FROM source WHERE name = 'code'`)
	gone := strings.Replace(file, "      - { name: ship, types: [ship], target: down }\n", "", 1)
	o.serve(t, gone, nil)
	for _, series := range []string{
		`oncegate_dead_effects{route="bill",source="shop"} 1`, `oncegate_silent_sources{source="code"} 1`,
		`oncegate_paused_queues{} 1`, `oncegate_stranded_effects{route="ship",source="shop"} 1`,
	} {
		o.awaited(t, series)
	}
	o.recorded.Keep(o.scrape(t), 30)

	inboxtest.Until(t, "a broker that is not there and one with a lag", func() bool {
		found := o.scrape(t)
		failing, _ := strconv.ParseFloat(found[`oncegate_broker_failing_seconds{source="gone",instance="oncegate-1:8081"}`], 64)
		lag, _ := strconv.ParseFloat(found[`oncegate_broker_lag_messages{source="queued",instance="oncegate-1:8081"}`], 64)
		return failing > 0 && lag > 1000
	})
	o.recorded.Keep(o.scrape(t), 60)

	o.exec(t, `ALTER TABLE inbox_event RENAME TO inbox_event_away`)
	lost := 0
	inboxtest.Until(t, "a process that is not ready", func() bool {
		lost++
		o.deliver(t, "shop", fmt.Sprint("evt_lost", lost), `{"type":"pay"}`, false)
		found := o.scrape(t)
		if lost <= 4 {
			o.recorded.Keep(found, 3)
		}
		return found[`oncegate_ready{check="gate",instance="oncegate-1:8081"}`] == "0"
	})
	o.recorded.Keep(o.scrape(t), 10)
	o.exec(t, `ALTER TABLE inbox_event_away RENAME TO inbox_event`)
	o.recorded.Keep(nil, 10)
	o.fired(t, alertsAtOnce()...)
}

// No alert fires on a day with ordinary traffic: a few duplicates, one forgery, and a sender that fails once.
func TestQuietDay(t *testing.T) {
	t.Parallel()
	prometheustest.Promtool(t)
	o := newObserved(t)
	o.until = time.Now().Add(365 * 24 * time.Hour)
	o.environ = slices.DeleteFunc(o.environ, func(v string) bool {
		return strings.HasPrefix(v, "DOWN=") || strings.HasPrefix(v, "UNSURE=") || strings.HasPrefix(v, "REFUSING=")
	})
	fine := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(fine.Close)
	o.environ = append(o.environ, "DOWN="+fine.URL, "UNSURE="+fine.URL, "REFUSING="+fine.URL)
	o.serve(t, fmt.Sprintf(alertsFile, o.until.UTC().Format(time.RFC3339)), nil)
	o.recorded.Keep(o.awaited(t, `oncegate_ready{check="gate"} 1`), 60)
	for hour := range 24 {
		for i := range 5 {
			o.deliver(t, "shop", fmt.Sprint("evt_", hour, "_", i), `{"type":"pay"}`, false)
		}
		o.deliver(t, "shop", fmt.Sprint("evt_", hour, "_0"), `{"type":"pay"}`, false)
		o.deliver(t, "shop", "evt_forged", `{"type":"pay"}`, hour == 7)
		o.recorded.Keep(o.scrape(t), 60)
	}
	o.fired(t)
}
