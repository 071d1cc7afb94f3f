package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/oncegate/oncegate/internal/broker/faulttest"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
)

const publishFile = `
targets:
  stream: { kind: publish, url: env:NATS, stream: orders, subject: "orders.{body.kind}" }
  topic: { kind: publish, url: env:KAFKA, topic: orders }
  gone: { kind: publish, url: env:NATS, subject: "bills", retry: { attempts: 1 } }
sources:
  agents:
    provider: operation
    secrets: [{ env: AGENT, name: agent }]
    routes:
      - { name: stream, types: [order], target: stream, map: { order: body.id } }
      - { name: topic, types: [order], target: topic, order: { mode: contiguous, key: body.customer, number: body.number, start: 1 } }
      - { name: gone, types: [bill], target: gone }
`

// An effect is done when the broker has its message, in the order of the sequence, and one that no stream takes is dead with the
// reason.
func TestWhatBrokersGet(t *testing.T) {
	t.Parallel()
	nats, kafka := faulttest.NewNATS(t, faulttest.Options{}), faulttest.NewKafka(t, faulttest.Options{})
	o := &operated{}
	o.start(t, "oncegate.yml", publishFile, "NATS="+nats.URL, "KAFKA="+kafka.URL)

	states := func(operation, body, key string) (int, map[string]string) {
		got := o.do(t, "POST", "agents", body, "Oncegate-Operation", operation, "Idempotency-Key", key, "Prefer", "wait=40")
		var document struct {
			Effects []struct{ Route, State string }
		}
		if err := json.Unmarshal([]byte(got.body), &document); err != nil {
			t.Fatalf("%s: %v", got.body, err)
		}
		out := map[string]string{}
		for _, e := range document.Effects {
			out[e.Route] = e.State
		}
		return got.status, out
	}
	for number := 1; number <= 5; number++ {
		body := fmt.Sprintf(`{"id":%d,"kind":"paid","customer":"c1","number":%d}`, number, number)
		if status, got := states("order", body, fmt.Sprint("k", number)); status != http.StatusOK || got["stream"] != "done" || got["topic"] != "done" {
			t.Fatalf("%d %v", status, got)
		}
	}
	var streamed, ordered []string
	for _, message := range nats.Messages() {
		_, body := effecttest.CloudEvent(t, message, "ce-")
		streamed = append(streamed, body)
	}
	keys := map[string]bool{}
	for _, message := range kafka.Messages() {
		attributes, body := effecttest.CloudEvent(t, message, "ce_")
		ordered = append(ordered, attributes["sequence"]+" "+body)
		keys[attributes["(key)"]] = true
	}
	var wantStreamed, wantOrdered []string
	for number := 1; number <= 5; number++ {
		wantStreamed = append(wantStreamed, fmt.Sprintf(`{"order":%d}`, number))
		wantOrdered = append(wantOrdered, fmt.Sprintf(`%d {"id":%d,"kind":"paid","customer":"c1","number":%d}`, number, number, number))
	}
	if !slices.Equal(streamed, wantStreamed) {
		t.Errorf("NATS got %q, want %q", streamed, wantStreamed)
	}
	if !slices.Equal(ordered, wantOrdered) || len(keys) != 1 || keys[""] {
		t.Errorf("Kafka got %q under the keys %v, want %q under one", ordered, keys, wantOrdered)
	}
	if _, got := states("bill", `{"id":6}`, "k6"); got["gone"] != "dead" {
		t.Errorf("what no stream takes is %v", got)
	}
	var reason string
	if err := o.pool.QueryRow(t.Context(), `SELECT a.reason FROM effect_attempt a JOIN effect e ON e.id = a.effect_id WHERE e.state = 'dead'`).Scan(&reason); err != nil || reason != "unroutable" {
		t.Errorf("its attempt failed with %q, %v", reason, err)
	}
}
