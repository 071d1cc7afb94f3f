package failover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/invariant"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// Options say what a campaign does.
type Options struct {
	// Cycles is the number of failovers, and Seed decides their order.
	Cycles int
	Seed   uint64

	// Synchronous has commits wait for the standby.
	Synchronous bool

	// Fault is the only one that the campaign makes. It may be empty.
	Fault Fault

	// Wrong is the mistake of a binary that must be noticed. It may be empty.
	Wrong string

	// Progress reports each cycle; it may be nil.
	Progress func(format string, args ...any)
}

// Summary is a campaign in figures.
type Summary struct {
	Synchronous                                     bool
	Cycles, Acked, Recorded, Lost, Doubled          int
	Once, Indeterminate, Restored, NeverArrived     int
	SentAgain, Applied, Violations, Whole, SetAside int
	RecordedAgain                                   int // events that only a former primary had recorded, and that their senders delivered again
	Pauses                                          map[Fault][]time.Duration
	Seed                                            uint64
	Elapsed                                         time.Duration
}

// String is the summary in one line.
func (s *Summary) String() string {
	standby := "asynchronous"
	if s.Synchronous {
		standby = "synchronous"
	}
	var pauses []string
	for _, fault := range Faults() {
		if all := s.Pauses[fault]; len(all) > 0 {
			least, most := all[0], all[0]
			for _, p := range all {
				least, most = min(least, p), max(most, p)
			}
			pauses = append(pauses, fmt.Sprintf("%s %.1f to %.1f s", fault, least.Seconds(), most.Seconds()))
		}
	}
	return fmt.Sprintf("failover: %d cycles with a %s standby, %d events acknowledged, %d recorded; lost %d, doubled %d; %d that only a former primary had recorded came again; where the target cannot deduplicate: "+
		"%d effects, %d indeterminate, of which %d restored and %d never arrived; where it can: %d sent more than once; in the database: %d; "+
		"%d timelines found whole and %d restored; pause of acknowledgements: %s; %d violations; seed %d, %.1f s",
		s.Cycles, standby, s.Acked, s.Recorded, s.Lost, s.Doubled, s.RecordedAgain, s.Once, s.Indeterminate, s.Restored, s.NeverArrived, s.SentAgain, s.Applied,
		s.Whole, s.SetAside, strings.Join(pauses, ", "), s.Violations, s.Seed, s.Elapsed.Seconds())
}

// Result is what a campaign found.
type Result struct {
	Summary    Summary
	Violations []rig.Violation
}

const (
	senders   = 8
	secret    = "whsec_failover_0123456789abcdef0123456789" //nolint:gosec // of a server that lives for minutes
	waitLimit = 90 * time.Second
)

const (
	// forgetful senders deliver one event of so many again, until it is acknowledged, againAfter later.
	forgetful  = 5
	againAfter = 4 * time.Second
)

const configuration = `
work: { lease: 2s, sweep_every: 1s, workers: 20 }
targets:
  once: { kind: forward, url: "http://%[1]s/once", idempotent: false, timeout: 1s, concurrency: 4, breaker: { open: 1s }, retry: { attempts: 1000, base: 100ms, max: 1s } }
  keyed: { kind: forward, url: "http://%[1]s/keyed", idempotent: true, timeout: 1s, breaker: { open: 1s }, retry: { attempts: 1000, base: 100ms, max: 1s } }
  table: { kind: sql, call: drill_apply, timeout: 1s, retry: { attempts: 1000, base: 100ms, max: 1s } }
sources:
  stripe:
    provider: stripe
    secrets: [env:FAILOVER_SECRET]
    routes:
      - { name: once, types: ["*"], target: once }
      - { name: keyed, types: ["*"], target: keyed }
      - { name: table, types: ["*"], target: table }
`

type campaign struct {
	*lab.Campaign
	options          Options
	random           *rand.Rand
	seen             *seen
	primary, standby *devpg.Server
	nodes            []*rig.Node
	former           map[string]trace // what former primaries received last, by the ids of the events
	summary          Summary

	stopSending context.CancelFunc
	sending     sync.WaitGroup
}

// newCampaign begins a campaign on two servers that stream: the world's own, and a standby that it makes.
func newCampaign(w *lab.World, name string, o *Options) *campaign {
	c := &campaign{
		Campaign: lab.NewCampaign(w, name+"_"+rig.RunID(), o.Progress, "FAILOVER_SECRET="+secret, "LOG_LEVEL=warn"),
		options:  *o, random: rig.Random(o.Seed, 0), seen: newSeen(), primary: w.Server, former: map[string]trace{},
		stopSending: func() {}, summary: Summary{Synchronous: o.Synchronous, Seed: o.Seed, Pauses: map[Fault][]time.Duration{}},
	}
	c.OnEnd(c.endServers)
	return c
}

// Run runs a campaign.
func Run(ctx context.Context, w *lab.World, o Options) (_ *Result, err error) {
	began := time.Now()
	c := newCampaign(w, "failover", &o)
	defer func() {
		err = c.End(err, fmt.Sprintf("./scripts/failover -asynchronous %d -seed %d", o.Cycles, o.Seed))
	}()
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	c.OnEnd(func() error { c.stopSending(); c.sending.Wait(); return nil })
	if err := c.runCycles(ctx); err != nil {
		return nil, err
	}
	r := &Result{}
	if r.Violations, err = c.check(ctx); err != nil {
		return nil, err
	}
	c.summary.Violations, c.summary.Elapsed = len(r.Violations), time.Since(began)
	r.Summary = c.summary
	return r, nil
}

// endServers stops the server that is not the world's.
func (c *campaign) endServers() error { return c.EndPair(c.primary, c.standby) }

// prepareTarget makes the schema, the target and the configuration.
func (c *campaign) prepareTarget(ctx context.Context) error {
	db, err := c.World.Prepare(ctx, c.Schema, invariant.MakeTable)
	if err != nil {
		return err
	}
	if err := db.Close(ctx); err != nil {
		return fmt.Errorf("closing the connection: %w", err)
	}
	address, err := c.Target(c.seen)
	if err != nil {
		return err
	}
	return c.Configure(configuration, address)
}

// prepare makes what the nodes need and the standby, and starts two nodes and the senders.
func (c *campaign) prepare(ctx context.Context) error {
	err := c.prepareTarget(ctx)
	if err != nil {
		return err
	}
	if c.standby, err = c.primary.StartStandby(ctx, "standby"); err != nil {
		return err
	}
	if err := c.stream(ctx); err != nil {
		return err
	}
	both, err := lab.JoinHosts(c.primary.DSN(), c.standby.DSN())
	if err != nil {
		return err
	}
	for i := range 2 {
		n, err := c.Serve(ctx, rig.NodeConfig{
			Name: strconv.Itoa(i), DSN: both, Failpoint: c.options.Wrong,
		})
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, n)
	}
	sending, stop := context.WithCancel(ctx)
	c.stopSending = stop
	for i := range senders {
		c.sending.Go(func() { c.send(sending, i) })
	}
	return nil
}

// send delivers one event after the other, each until it is acknowledged, to either node. It delivers some of them again later, as a sender
// that has missed an acknowledgement does.
func (c *campaign) send(ctx context.Context, sender int) {
	client := rig.NewClient(2, 10*time.Second)
	for n := 0; ctx.Err() == nil; n++ {
		id := fmt.Sprintf("evt_%s_%d_%d", c.Schema, sender, n)
		body := fmt.Appendf(nil, `{"id":"%s","object":"event","created":%d,"type":"invoice.paid"}`, id, time.Now().Unix())
		c.seen.add(id, body)
		if c.deliverUntil(ctx, client, sender, body) {
			c.seen.ack(id)
		}
		if n%forgetful == 0 {
			c.sending.Go(func() { rig.Pause(ctx, againAfter); c.deliverUntil(ctx, client, sender, body) })
		}
		rig.Pause(ctx, 60*time.Millisecond)
	}
}

// deliverUntil delivers a body to one node after the other until it is acknowledged, or ctx has ended.
func (c *campaign) deliverUntil(ctx context.Context, client *http.Client, sender int, body []byte) (acknowledged bool) {
	for try := sender; ; try++ {
		status, err := rig.Deliver(context.WithoutCancel(ctx), client, c.nodes[try%len(c.nodes)].SourceURL("stripe"), secret, body)
		if err == nil && status/100 == 2 {
			return true
		}
		if !rig.Pause(ctx, 50*time.Millisecond) {
			return false
		}
	}
}
