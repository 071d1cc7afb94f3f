package config_test

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers/catalog"
)

// loadPublish loads a configuration with one target and a route to it.
func loadPublish(target, order string) (*config.Target, *config.Config, error) {
	cfg, err := config.Load(config.Options{
		File: "x.yml", Catalog: new(catalog.Lazy),
		Environ: []string{"SECRET=whsec_c2VjcmV0", "DATABASE_URL=postgres://localhost/x", "BROKER=nats://bob:canary@b:1,c", "PASSWORD=canary"},
		Content: []byte("targets: { out: " + target + " }\nsources: { stripe: { provider: stripe, secrets: [env:SECRET], routes: [{ name: out, target: out" + order + " }] } }\n"),
	})
	if err != nil {
		return nil, nil, err
	}
	return cfg.Targets[0], cfg, nil
}

func TestPublishTargets(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]struct{ place, within, user, password string }{
		`{ kind: publish, url: "nats://b:4222", subject: orders.paid, stream: ORDERS }`:                {"orders.paid", "ORDERS", "", ""},
		`{ kind: publish, url: "nats://u:canary@b", subject: "orders.{body.data.object.country}" }`:    {"orders.{body.data.object.country}", "", "u", "canary"},
		`{ kind: publish, url: env:BROKER, subject: orders }`:                                          {"orders", "", "bob", "canary"},
		`{ kind: publish, url: env:BROKER, subject: orders, username: ann, password: env:PASSWORD }`:   {"orders", "", "ann", "canary"},
		`{ kind: publish, url: "nats://b", subject: orders, password: [env:PASSWORD] }`:                {"orders", "", "", "canary"},
		`{ kind: publish, url: "kafka://a,b", topic: orders, max_message: 4MiB, key_window: 7d }`:      {"orders", "", "", ""},
		`{ kind: publish, url: "amqps://u:canary@b/shop", exchange: events, subject: "o.{event.id}" }`: {"o.{event.id}", "events", "u", "canary"},
		`{ kind: publish, url: "amqp://b", subject: queue }`:                                           {"queue", "", "", ""},
		`{ kind: publish, url: "amqp://b", exchange: fanout }`:                                         {"", "fanout", "", ""},
	} {
		got, cfg, err := loadPublish(target, "")
		if err != nil {
			t.Errorf("%s: %v", target, err)
			continue
		}
		p := got.PublishConfig(nil)
		if p.Place != want.place || p.Within != want.within || p.Broker.Username != want.user || p.Broker.Password != want.password || !p.Idempotent {
			t.Errorf("%s: place %q, within %q, user %q, idempotent %t", target, p.Place, p.Within, p.Broker.Username, p.Idempotent)
		}
		printed, err := yaml.Marshal(cfg.Effective())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(printed), "canary") || strings.Contains(got.ShownURL(), "canary") {
			t.Errorf("%s: the password is printed: %s %s", target, got.ShownURL(), printed)
		}
	}
	if got, _, err := loadPublish(`{ kind: publish, url: "kafka://a", topic: x, max_message: 4MiB }`, ""); err != nil || got.Broker().MaxMessage != 4<<20 || got.Broker().Address.Kind != broker.Kafka {
		t.Errorf("%+v, %v", got, err)
	}
	if got, _, err := loadPublish(`{ kind: publish, url: "kafka://a", topic: x, idempotent: false }`, ""); err != nil || got.Idempotent {
		t.Errorf("idempotent: false is not kept: %v", err)
	}
}

func TestWrongPublishTargets(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		`{ kind: publish, subject: x }`:                                                        "url is missing",
		`{ kind: publish, url: "http://b", subject: x }`:                                       "want kafka://",
		`{ kind: publish, url: "nats://b" }`:                                                   "subject is missing",
		`{ kind: publish, url: "kafka://b" }`:                                                  "topic is missing",
		`{ kind: publish, url: "amqp://b" }`:                                                   "subject is missing",
		`{ kind: publish, url: "nats://b", topic: x }`:                                         "nats has none; it has stream, subject",
		`{ kind: publish, url: "kafka://b", topic: x, stream: y }`:                             "kafka has none; it has topic",
		`{ kind: publish, url: "amqp://b", subject: x, stream: y }`:                            "rabbitmq has none; it has exchange, subject",
		`{ kind: publish, url: "nats://b", subject: "a b" }`:                                   "must have no space",
		`{ kind: publish, url: "nats://b", subject: "a.*" }`:                                   "without * and >",
		`{ kind: publish, url: "nats://b", subject: "a.{nothing}" }`:                           "is no expression",
		`{ kind: publish, url: "nats://b", subject: "a.{" }`:                                   "subject: a { has no }",
		`{ kind: publish, url: "kafka://b", topic: "a.{body.id}" }`:                            "a topic has no expressions",
		`{ kind: publish, url: "nats://b", subject: x, sasl: plain }`:                          "only Kafka has it",
		`{ kind: publish, url: "nats://b", subject: x, max_message: 1KiB }`:                    "only Kafka has it",
		`{ kind: publish, url: "kafka://b", topic: x, username: u }`:                           "must be set together",
		`{ kind: publish, url: "nats://b", subject: x, password: [env:PASSWORD, env:SECRET] }`: "takes one",
		`{ kind: publish, url: "nats://b", subject: "a.{sequence_key}" }`:                      "which only an ordered route has",
		`{ kind: publish, url: "nats://b", subject: x, idempotent: false, key_window: 1h }`:    "key_window needs idempotent: true",
	} {
		_, _, err := loadPublish(target, "")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %q", target, err, want)
		}
	}
	if _, _, err := loadPublish(`{ kind: publish, url: "nats://b", subject: "a.{sequence_key}" }`, ", order: { mode: arrival, key: body.id }"); err != nil {
		t.Error(err)
	}
}
