package proxies

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// Options configures the campaign.
type Options struct {
	// Proxy is nginx, caddy or haproxy.
	Proxy string

	// Wrong breaks the shipped file: "body-limit" removes the limit of bodies from nginx's.
	Wrong string

	// Repeat has nginx send a delivery to the other receiver if the connection to the first one breaks.
	Repeat bool

	Seed uint64

	// URL is the database and Schema the schema, which is made.
	URL, Schema string

	// Dir is the directory of the binary, the configurations and the logs.
	Dir      string
	Progress func(format string, args ...any)
}

const (
	secret      = "whsec_proxies_0123456789abcdef" //nolint:gosec // only processes of the campaign accept it
	wrongSecret = "whsec_proxies_0123456789abcdee" //nolint:gosec // no process accepts it

	// patience is how long a delivery may take until it is acknowledged, and the effects until they are at rest.
	patience = 2 * time.Minute
)

// configuration is the receivers'. drain_delay is what the shipped files and the guide ask for.
const configuration = `
listen: { trusted_proxies: [127.0.0.1/32] }
drain_delay: 5s
work: { lease: 10s, sweep_every: 1s }
targets:
  ledger: { kind: sql, statement: "INSERT INTO ledger (event) VALUES (@event)", parameters: { event: event.id } }
sources:
  push: { provider: github, secrets: [env:SECRET], routes: [{ name: ledger, target: ledger }] }
  forged: { provider: github, secrets: [env:SECRET] }
  paused: { provider: github, secrets: [env:SECRET] }
  square: { provider: square, secrets: [env:SECRET] }
  twilio: { provider: twilio, secrets: [env:SECRET] }
  certificate:
    provider: generic-mtls
    settings: { certificate_header: Client-Cert, ca: "file:%s", san_dns: sender.example }
`

// campaign is the proxy and the receivers.
type campaign struct {
	*lab.Campaign
	*places
	*certificates
	options   Options
	proxy     *proxy
	running   *rig.Process
	receivers []*receiver
	probes    []Probe

	mu         sync.Mutex
	deliveries map[string]*Delivery
	phases     []Phase
}

// receiver is one Oncegate.
type receiver struct {
	cfg  rig.NodeConfig
	node *rig.Node
}

// Run runs a campaign.
func Run(ctx context.Context, o Options) (v *Evidence, err error) {
	x := proxiesByName()[o.Proxy]
	if x == nil {
		return nil, fmt.Errorf("the proxy %q is unknown: want nginx, caddy or haproxy", o.Proxy)
	}
	c := &campaign{options: o, proxy: x, deliveries: map[string]*Delivery{}}
	w, err := lab.NewWorld(ctx, lab.WorldConfig{Name: "proxies", Dir: o.Dir, DSN: o.URL})
	if err != nil {
		return nil, err
	}
	if c.places, err = newPlaces(w.Dir); err != nil {
		return nil, err
	}
	authority := filepath.Join(w.Dir, "sender.pem")
	if c.certificates, err = c.writeCertificates(authority); err != nil {
		return nil, err
	}
	c.Campaign = lab.NewCampaign(w, o.Schema, o.Progress, "SECRET="+secret)
	defer func() {
		err = c.End(err, fmt.Sprintf("./scripts/proxies %s -seed %d", o.Proxy, o.Seed), c.log())
	}()
	if err := c.Prepare(ctx, "CREATE TABLE ledger (event text NOT NULL)"); err != nil {
		return nil, err
	}
	if err := c.Configure(configuration, authority); err != nil {
		return nil, err
	}
	if err := c.startAll(ctx); err != nil {
		return nil, err
	}
	if err := c.probe(ctx); err != nil {
		return nil, err
	}
	if o.Wrong == "" {
		if err := c.steady(ctx); err != nil {
			return nil, err
		}
	}
	return c.evidence(ctx)
}

// startAll starts the receivers and then the proxy.
func (c *campaign) startAll(ctx context.Context) (err error) {
	for i, address := range []string{firstReceiver, secondReceiver} {
		r := &receiver{cfg: rig.NodeConfig{Name: fmt.Sprint("receiver-", i+1), Public: address + ":" + c.public, Admin: address + ":" + c.private}}
		if r.node, err = c.Serve(ctx, r.cfg); err != nil {
			return err
		}
		c.receivers = append(c.receivers, r)
	}
	var replaced []replacement
	switch c.options.Wrong {
	case "":
	case "body-limit":
		replaced = append(replaced, replacement{"    client_max_body_size 36m;\n", ""})
	default:
		return fmt.Errorf("-wrong %s is unknown: want body-limit", c.options.Wrong)
	}
	if c.options.Repeat {
		replaced = append(replaced, replacement{"error timeout;", "error timeout non_idempotent;"})
	}
	if err := c.proxy.configure(c.places, replaced...); err != nil {
		return err
	}
	if c.running, err = c.proxy.start(ctx, c.places); err != nil {
		return err
	}
	c.OnEnd(func() error { return c.proxy.end(c.running) })
	// A proxy that asks whether the receivers are ready has not got its answers yet.
	return rig.Until(ctx, time.Minute, "the proxy to reach a receiver", func() (bool, error) {
		a := send(ctx, c.newClient(false), request{method: "GET", url: c.url() + "/in/push"})
		return a.status == 405, nil
	})
}

// evidence waits until everything has come to rest, stops the processes and reads the tables.
func (c *campaign) evidence(ctx context.Context) (*Evidence, error) {
	if err := c.Rest(ctx, patience); err != nil {
		return nil, err
	}
	v := &Evidence{Probes: c.probes, Phases: c.phases, Deliveries: c.deliveries}
	if err := v.read(ctx, c.DB); err != nil {
		return nil, err
	}
	var errs []error
	for _, r := range c.receivers {
		errs = append(errs, r.node.Stop(time.Minute), r.node.Err())
	}
	return v, errors.Join(errs...)
}

// version is the version that a proxy says that it has.
func version(ctx context.Context, x *proxy) string {
	argument := "-v"
	if filepath.Base(x.program) == "caddy" {
		argument = "version"
	}
	out, err := lab.RunCommand(ctx, nil, time.Minute, x.program, argument)
	if err != nil {
		return err.Error()
	}
	lines := slices.Collect(lineSeq(out.Stdout + out.Stderr))
	return lines[0]
}

// Version returns the version of a proxy, for the report.
func Version(ctx context.Context, name string) string { return version(ctx, proxiesByName()[name]) }

// Missing returns the path of a proxy's program if this machine does not have it.
func Missing(name string) string {
	if _, err := os.Stat(proxiesByName()[name].program); err != nil {
		return proxiesByName()[name].program
	}
	return ""
}
