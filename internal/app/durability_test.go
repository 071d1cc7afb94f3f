package app_test

import (
	"net/http"
	"testing"

	"github.com/oncegate/oncegate/inbox"
)

// TestQuorumWithoutANamedStandbyIsNotReady: deliveries are answered 503, readiness says what to set, and both recover by themselves.
func TestQuorumWithoutANamedStandbyIsNotReady(t *testing.T) {
	t.Parallel()
	const schema = "oncegate"
	server, pool := primary(t, schema)
	standbyOf(t, server)
	set(t, pool, "synchronous_standby_names", "standby")
	a, send := startedWith(t, server.DSN(), schema, quiet(t), inbox.DurabilityQuorum)
	untilCheck(t, a, "commits", "ok")
	if status := send("evt_1"); status != http.StatusOK {
		t.Errorf("a delivery was answered %d", status)
	}
	set(t, pool, "synchronous_standby_names", "")
	untilCheck(t, a, "commits", "set synchronous_standby_names")
	if status := send("evt_2"); status != http.StatusServiceUnavailable {
		t.Errorf("a delivery that no standby has was answered %d", status)
	}
	set(t, pool, "synchronous_standby_names", "standby")
	untilCheck(t, a, "commits", "ok")
	if status := send("evt_2"); status != http.StatusOK {
		t.Errorf("the same delivery was answered %d when a standby is named again", status)
	}
}
