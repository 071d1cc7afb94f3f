package night

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// Options say how long a night is, and where.
type Options struct {
	// Deliveries is the number of events.
	Deliveries int

	// URL is the database and Schema the schema, which is made.
	URL, Schema string

	// Dir is the directory of the binary, the configurations and the log.
	Dir string

	// Progress reports each part; it may be nil.
	Progress func(format string, args ...any)
}

// Campaign is one night in progress.
type Campaign struct {
	*lab.Campaign
	options  Options
	target   *targetLedger
	address  string // of the target
	node     *rig.Node
	evidence *Evidence
}

const configurationBefore = `
work: { lease: 2s, sweep_every: 1s, workers: 50 }
targets:
  billing: { kind: forward, url: "http://%[1]s/billing/hooks", idempotent: true, retry_on: [429, 503], timeout: 400ms, concurrency: 48, breaker: { failures: 1000000 }, retry: { attempts: 2, base: 10ms, max: 50ms } }
  archive: { kind: forward, url: "http://%[1]s/archive", idempotent: true, retry: { attempts: 20, base: 100ms, max: 1s } }
  table:   { kind: sql, call: night_apply }
sources:
  stripe:
    provider: stripe
    secrets: [env:STRIPE_SECRET]
    routes:
      - { name: billing, types: ["invoice.*"], target: billing }
      - { name: table, target: table }
  github:
    provider: github
    secrets: [env:GITHUB_SECRET]
    routes:
      - { name: billing, target: billing, map: { number: body.issue.number, title: body.issue.title } }
      - { name: archive, target: archive }
  standard:
    provider: standard-webhooks
    secrets: [env:STANDARD_SECRET]
    routes: [{ name: billing, target: billing }]
`

// The routes are changed before the replay. The route of stripe takes fewer types, has a condition and makes another
// body. The route of github makes another body than the stored one. The route of standard leads to another target.
const configurationAfter = `
work: { lease: 2s, sweep_every: 1s, workers: 50 }
targets:
  billing: { kind: forward, url: "http://%[1]s/billing/hooks", idempotent: true, retry_on: [429, 503], timeout: 1500ms, retry: { attempts: 20, base: 100ms, max: 1s } }
  moved:   { kind: forward, url: "http://%[1]s/v2/billing/hooks", idempotent: true, timeout: 1500ms, retry: { attempts: 20, base: 100ms, max: 1s } }
  archive: { kind: forward, url: "http://%[1]s/archive", idempotent: true, retry: { attempts: 20, base: 100ms, max: 1s } }
  table:   { kind: sql, call: night_apply }
sources:
  stripe:
    provider: stripe
    secrets: [env:STRIPE_SECRET]
    routes:
      - { name: billing, types: [invoice.paid], target: billing, when: body.data.object.total > 0, map: { invoice: body.data.object.id, total: body.data.object.total, client_secret: body.data.object.client_secret } }
      - { name: table, target: table }
  github:
    provider: github
    secrets: [env:GITHUB_SECRET]
    routes:
      - { name: billing, target: billing, map: { number: body.issue.number } }
      - { name: archive, target: archive }
  standard:
    provider: standard-webhooks
    secrets: [env:STANDARD_SECRET]
    routes: [{ name: billing, target: moved }]
`

// A function that is called twice leaves two rows, since nothing is unique here.
const makeTable = `
CREATE TABLE night_applied (key text NOT NULL);
CREATE FUNCTION night_apply(document jsonb) RETURNS void LANGUAGE sql AS
    'INSERT INTO night_applied VALUES (document ->> ''key'')';`

// Run plays the whole night and reads the ledgers.
func Run(ctx context.Context, o Options) (_ *Evidence, err error) {
	w, err := lab.NewWorld(ctx, lab.WorldConfig{Name: "night", Dir: o.Dir, DSN: o.URL})
	if err != nil {
		return nil, err
	}
	variables := []string{"LOG_LEVEL=warn", "ONCEGATE_ACTOR=night"}
	for i := range sources {
		variables = append(variables, strings.ToUpper(sources[i].Name)+"_SECRET="+sources[i].Secret)
	}
	n := &Campaign{
		Campaign: lab.NewCampaign(w, o.Schema, o.Progress, variables...),
		options:  o, target: newTargetLedger(), evidence: &Evidence{Address: map[string]string{
			"billing": pathBilling, "moved": pathMoved, "archive": pathArchive,
		}},
	}
	defer func() { err = n.End(err, fmt.Sprintf("./scripts/night %d", o.Deliveries)) }()
	if err := n.Prepare(ctx, makeTable); err != nil {
		return nil, err
	}
	if n.address, err = n.Target(n.target); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"delivering while billing is up and goes down", n.deliverThroughOutage},
		{"changing routes", n.changeRoutes},
		{"planning", n.makePlan},
		{"running, with a kill and a cancellation", n.runAndInterrupt},
		{"running the rest", n.replayRest},
		{"reading the books", n.readLedgers},
	} {
		began := time.Now()
		if err := part.do(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		n.Progress("%s: %.1f s", part.name, time.Since(began).Seconds())
	}
	return n.evidence, nil
}

// serve starts the binary with a configuration and waits until it is ready.
func (n *Campaign) serve(ctx context.Context, configuration string) (err error) {
	if err = n.Configure(configuration, n.address); err == nil {
		n.node, err = n.Serve(ctx, rig.NodeConfig{})
	}
	return err
}

// deliverThroughOutage delivers a fifth of the events while billing is up, and the others in each way in which it is
// down. Then billing is up again.
func (n *Campaign) deliverThroughOutage(ctx context.Context) error {
	if err := n.serve(ctx, configurationBefore); err != nil {
		return err
	}
	all := n.options.Deliveries
	for _, part := range []struct {
		mode     Mode
		from, to int
	}{{Up, 0, all / 5}, {Unavailable, all / 5, all / 2}, {Hanging, all / 2, all * 3 / 4}, {Resetting, all * 3 / 4, all}} {
		n.target.setMode(part.mode)
		events := make([]Event, 0, part.to-part.from)
		for i := part.from; i < part.to; i++ {
			events = append(events, newEvent(i, part.mode))
		}
		if err := n.deliver(ctx, events); err != nil {
			return err
		}
		n.evidence.Events = append(n.evidence.Events, events...)
		if err := n.Rest(ctx, n.limit()); err != nil {
			return err
		}
	}
	n.target.setMode(Up)
	return nil
}

// changeRoutes restarts the node with other routes.
func (n *Campaign) changeRoutes(ctx context.Context) error {
	if err := n.node.Stop(30 * time.Second); err != nil {
		return err
	}
	return n.serve(ctx, configurationAfter)
}

// limit is a generous time for everything that is waited for.
func (n *Campaign) limit() time.Duration {
	return 2*time.Minute + time.Duration(n.options.Deliveries)*20*time.Millisecond
}
