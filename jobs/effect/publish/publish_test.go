package publish_test

import (
	"crypto/tls"
	"testing"

	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
	"github.com/oncegate/oncegate/jobs/effect/publish"
)

// newPublish makes a sender that ends with the test.
func newPublish(tb testing.TB, to effecttest.PublishTo) *publish.Sender {
	tb.Helper()
	address, user, password, err := broker.ParseAddress(to.URL)
	if err != nil {
		tb.Fatal(err)
	}
	if to.Username != "" {
		user, password = to.Username, to.Password
	}
	var secure *tls.Config
	if to.Roots != nil {
		secure = &tls.Config{RootCAs: to.Roots, MinVersion: tls.VersionTLS12}
	}
	s, err := publish.New(publish.Config{
		Broker: broker.Config{Address: address, Username: user, Password: password, Resolver: to.Resolver, TLS: secure},
		Place:  to.Place, Within: to.Within,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

func TestPublish(t *testing.T) { //nolint:tparallel // Run makes the subtests parallel
	t.Parallel()
	for _, b := range effecttest.Brokers() { //nolint:paralleltest // likewise
		t.Run(b.Scheme, func(t *testing.T) {
			effecttest.Run(t, effecttest.Publish(func(tb testing.TB, to effecttest.PublishTo) effect.Sender { return newPublish(tb, to) }, b))
		})
	}
}
