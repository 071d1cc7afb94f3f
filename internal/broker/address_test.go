package broker_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/broker"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		kind           broker.Kind
		secure         bool
		hosts          []string
		vhost          string
		user, password string
		shown          string
	}{
		"nats://a":                 {broker.NATS, false, []string{"a:4222"}, "", "", "", "nats://a:4222"},
		"tls://a,b:1,[::1]:2":      {broker.NATS, true, []string{"a:4222", "b:1", "[::1]:2"}, "", "", "", "tls://a:4222,b:1,[::1]:2"},
		"nats://u:p%40@a/":         {broker.NATS, false, []string{"a:4222"}, "", "u", "p@", "nats://a:4222"},
		"kafka://a,b":              {broker.Kafka, false, []string{"a:9092", "b:9092"}, "", "", "", "kafka://a:9092,b:9092"},
		"kafka+ssl://u:p@a":        {broker.Kafka, true, []string{"a:9093"}, "", "u", "p", "kafka+ssl://a:9093"},
		"amqp://a":                 {broker.RabbitMQ, false, []string{"a:5672"}, "/", "", "", "amqp://a:5672"},
		"amqps://u:p@a:1/sh%2Fop":  {broker.RabbitMQ, true, []string{"a:1"}, "sh/op", "u", "p", "amqps://a:1/sh%2Fop"},
		"amqps://u:p%3Ax@a,b/shop": {broker.RabbitMQ, true, []string{"a:5671", "b:5671"}, "shop", "u", "p:x", "amqps://a:5671,b:5671/shop"},
	} {
		a, user, password, err := broker.ParseAddress(text)
		if err != nil || a.Kind != want.kind || a.Secure != want.secure || !slices.Equal(a.Hosts, want.hosts) || a.VHost != want.vhost || user != want.user || password != want.password {
			t.Errorf("%s: %+v %q %q, %v", text, a, user, password, err)
		}
		if got := a.String(); got != want.shown {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
	for _, text := range []string{
		"", "a", "http://a", "nats://", "nats://a,", "nats://canary@:1", "nats://canary:%zz@a", "kafka://a/canary", "nats://a?canary=1", "amqp://a/%zz", "amqp://a/x?canary", "nats://a b", "kafka://a:canary",
	} {
		if a, _, _, err := broker.ParseAddress(text); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %+v, %v", text, a, err)
		}
	}
}

func TestAccountsAreWhole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url                    string
		username, password, by string
		max                    int32
		ok                     bool
	}{
		{"nats://a", "", "", "", 0, true},
		{"nats://a", "u", "p", "", 0, true},
		{"nats://a", "", "token", "", 0, true},
		{"nats://a", "u", "", "", 0, false},
		{"nats://a", "u", "p", "plain", 0, false},
		{"nats://a", "", "", "", 1, false},
		{"kafka://a", "", "p", "", 0, false},
		{"kafka://a", "u", "p", "scram-sha-512", 1 << 20, true},
		{"kafka://a", "", "", "plain", 0, false},
		{"kafka://a", "u", "p", "gssapi", 0, false},
		{"kafka://a", "", "", "", -1, false},
		{"amqp://a", "", "p", "", 0, false},
	} {
		address, _, _, err := broker.ParseAddress(c.url)
		if err != nil {
			t.Fatal(err)
		}
		publisher, err := broker.NewPublisher(broker.Config{Address: address, Username: c.username, Password: c.password, SASL: c.by, MaxMessage: c.max}, "")
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil {
			publisher.Close()
		}
	}
	if _, err := broker.NewPublisher(broker.Config{}, ""); err == nil {
		t.Error("a publisher without an address is made")
	}
}
