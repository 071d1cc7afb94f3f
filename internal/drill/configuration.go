package drill

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/oncegate/oncegate/internal/drill/invariant"
	"github.com/oncegate/oncegate/internal/drill/sender"
)

// The secrets are known to everybody, but only processes that live as long as the drill accept them.
const (
	secret      = "whsec_drill_0123456789abcdef0123456789abcdef" //nolint:gosec // see above
	wrongSecret = "whsec_drill_0123456789abcdef0123456789abcdee" //nolint:gosec // see above
)

// sources returns the senders of a drill.
func sources() []sender.Source {
	return []sender.Source{
		sender.Stripe(secret, wrongSecret), sender.GitHub(secret, wrongSecret), sender.Standard([]byte(secret), []byte(wrongSecret)),
	}
}

// routes returns the routes of every source. Each has the name of its kind.
func routes() []invariant.Route {
	return []invariant.Route{
		{Name: string(invariant.Idempotent), Kind: invariant.Idempotent, Type: sender.Paid, Keyed: true},
		{Name: string(invariant.Once), Kind: invariant.Once, Type: sender.Paid, Keyed: true},
		{Name: string(invariant.Table), Kind: invariant.Table, Type: sender.Paid, Keyed: true},
		{Name: string(invariant.Sequence), Kind: invariant.Sequence, Type: sender.Step},
		{Name: string(invariant.Latest), Kind: invariant.Latest, Type: sender.Version},
	}
}

// makeTarget makes the functions in the database. Some calls fail after the work, and some take longer than the target's
// timeout.
const makeTarget = invariant.MakeTable + `;
CREATE FUNCTION drill_apply_or_fail(document jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM drill_apply(document);
    IF random() < 0.02 THEN
        RAISE EXCEPTION 'the drill lets this call fail' USING ERRCODE = 'serialization_failure';
    ELSIF random() < 0.005 THEN
        PERFORM pg_sleep(1.5);
    END IF;
END $$`

const targets = `
database: { gate_connections: 4, work_connections: 6, queue_connections: 8 }
work: { lease: 2s, sweep_every: 1s, workers: 20 }
targets:
  idempotent: { kind: forward, url: "http://%s/", idempotent: true, timeout: 1s, breaker: { open: 1s }, retry: { attempts: 1000, base: 100ms, max: 1s } }
  once: { kind: forward, url: "http://%s/", idempotent: false, timeout: 1s, breaker: { open: 1s }, retry: { attempts: 1000, base: 100ms, max: 1s } }
  table: { kind: sql, call: drill_apply_or_fail, timeout: 1s, retry: { attempts: 1000, base: 100ms, max: 1s } }
sources:
`

const source = `  %s:
    provider: %s
    secrets: [env:%s]
    routes:
      - { name: idempotent, types: [invoice.paid], target: idempotent, key: [body.order] }
      - { name: once, types: [invoice.paid], target: once, key: [body.order] }
      - { name: table, types: [invoice.paid], target: table, key: [body.order] }
      - { name: sequence, types: [order.step], target: table, order: { mode: contiguous, key: body.stream, number: body.number, start: 1, patience: 1h } }
      - { name: latest, types: [order.version], target: table, order: { mode: latest, key: body.stream, number: body.number } }
`

// configuration returns the configuration of the nodes and the environment with its secrets.
func configuration(all []sender.Source, idempotent, once string) (text string, env []string) {
	var b strings.Builder
	fmt.Fprintf(&b, targets, idempotent, once)
	for i := range all {
		variable := "DRILL_SECRET_" + strconv.Itoa(i)
		fmt.Fprintf(&b, source, all[i].Name, all[i].Provider, variable)
		env = append(env, variable+"="+all[i].Secret)
	}
	return b.String(), append(env, "LOG_LEVEL=warn")
}
