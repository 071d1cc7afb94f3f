package brokers

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// Options say how long a campaign is.
type Options struct {
	// Broker is nats or rabbitmq, and Cycles the number of kills.
	Broker string
	Cycles int
	Seed   uint64

	// URL is the database. The campaign makes the schemas Schema_out and Schema_in there.
	URL, Schema string

	// Dir is the directory of the binary, the configurations, the broker and the logs.
	Dir      string
	Progress func(format string, args ...any)
}

// Evidence is what there is in the end.
type Evidence struct {
	// Acknowledged are the deliveries that were answered 2xx, by their number, with their customer.
	Acknowledged map[string]string

	// Applied are the rows of the far end's ledger in their order.
	Applied []Applied

	// Messages are the ids of the messages that the broker stored.
	Messages []string

	// Published is the number of effects of the publisher that are done, and Unfinished of those that are not.
	Published, Unfinished int

	Kills map[string]int
}

// Applied is one row of the ledger.
type Applied struct{ Number, Customer string }

const (
	// signing is the key of the deliveries, in plain text.
	signing   = "secret-secret-secret"
	customers = 10
	perCycle  = 20
	patience  = 5 * time.Minute
)

const outgoing = `
work: { lease: 5s, sweep_every: 1s }
targets:
  bus: { kind: publish, %s, timeout: 2s, retry: { base: 200ms, max: 1s, attempts: 100000 }, breaker: off }
sources:
  shop:
    provider: standard-webhooks
    secrets: [env:SHOP_SECRET]
    routes: [{ name: bus, target: bus, order: { mode: arrival, key: body.customer } }]
`

const incoming = `
work: { lease: 5s, sweep_every: 1s }
targets:
  ledger: { kind: sql, statement: "INSERT INTO ledger (number, customer) VALUES (@number, @customer)", parameters: { number: body.number, customer: body.customer } }
sources:
  bridge:
    from: { %s }
    routes: [{ name: ledger, target: ledger, order: { mode: arrival, key: body.customer } }]
`

// campaign is the two processes and the broker between them.
type campaign struct {
	Options
	random *rand.Rand
	broker broker
	out    *side
	in     *side
	client *http.Client

	mu           sync.Mutex
	acknowledged map[string]string
	sent         int
	kills        map[string]int
}

// side is one Oncegate.
type side struct {
	*lab.Campaign
	cfg  rig.NodeConfig
	node *rig.Node
}

// Run runs a campaign.
func Run(ctx context.Context, o Options) (v *Evidence, err error) {
	c := &campaign{Options: o, random: rig.Random(o.Seed, 1), client: rig.NewClient(2*perCycle, 30*time.Second), acknowledged: map[string]string{}, kills: map[string]int{}}
	dir := filepath.Join(o.Dir, "broker")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if c.broker, err = newBroker(o.Broker, dir); err != nil {
		return nil, err
	}
	if err := c.broker.start(ctx); err != nil {
		return nil, fmt.Errorf("starting the broker: %w: %s", err, rig.TailFile(c.broker.log()))
	}
	defer func() { err = errors.Join(err, c.broker.end()) }()
	if err := c.broker.prepare(ctx); err != nil {
		return nil, err
	}
	w, err := lab.NewWorld(ctx, lab.WorldConfig{Name: "brokers", Dir: o.Dir, DSN: o.URL})
	if err != nil {
		return nil, err
	}
	repeat := fmt.Sprintf("./scripts/brokers -broker %s -cycles %d -seed %d", o.Broker, o.Cycles, o.Seed)
	// The consumer's connections to the broker end first.
	if c.out, err = c.side(ctx, w, "out", outgoing, c.broker.target()); err != nil {
		return nil, err
	}
	defer func() { err = c.out.End(err, repeat, c.broker.log()) }()
	if c.in, err = c.side(ctx, w, "in", incoming, c.broker.source(), "CREATE TABLE ledger (at bigserial PRIMARY KEY, number text NOT NULL, customer text NOT NULL)"); err != nil {
		return nil, err
	}
	defer func() { err = c.in.End(err, repeat) }()
	for cycle := range o.Cycles {
		if err := c.cycle(ctx, cycle); err != nil {
			return nil, fmt.Errorf("cycle %d: %w", cycle+1, err)
		}
	}
	return c.evidence(ctx)
}

func (c *campaign) side(ctx context.Context, w *lab.World, name, configuration, keys string, statements ...string) (*side, error) {
	s := &side{Campaign: lab.NewCampaign(w, c.Schema+"_"+name, c.Progress, "LOG_LEVEL=warn", "SHOP_SECRET=whsec_"+base64.StdEncoding.EncodeToString([]byte(signing)))}
	if err := s.Prepare(ctx, statements...); err != nil {
		return nil, err
	}
	if err := s.Configure(configuration, keys); err != nil {
		return nil, err
	}
	s.cfg = rig.NodeConfig{Name: name}
	if err := s.cfg.ChooseAddresses(); err != nil {
		return nil, err
	}
	return s, s.serve(ctx)
}

func (s *side) serve(ctx context.Context) (err error) {
	s.node, err = s.Serve(ctx, s.cfg)
	return err
}

// victims are what a cycle may kill.
var victims = []string{"publisher", "broker", "consumer"}

// cycle sends deliveries and kills one of the three processes meanwhile. It ends when every delivery is acknowledged.
func (c *campaign) cycle(ctx context.Context, cycle int) error {
	victim := victims[c.random.IntN(len(victims))]
	if cycle < len(victims) {
		victim = victims[cycle]
	}
	after := time.Duration(c.random.IntN(400)) * time.Millisecond
	away := time.Duration(c.random.IntN(1000)) * time.Millisecond
	c.Progress("cycle %d of %d: the %s, after %s", cycle+1, c.Cycles, victim, after)
	c.kills[victim]++
	killed := make(chan error, 1)
	go func() { killed <- c.kill(ctx, victim, after, away) }()
	begin := c.sent
	c.sent += perCycle
	err := rig.SendEach(ctx, perCycle, perCycle, func(ctx context.Context, n int) error { return c.deliver(ctx, begin+n) })
	return errors.Join(err, <-killed)
}

func (c *campaign) kill(ctx context.Context, victim string, after, away time.Duration) error {
	rig.Pause(ctx, after)
	kill, start := c.broker.kill, c.broker.start
	switch victim {
	case "publisher":
		kill, start = c.out.node.Kill, c.out.serve
	case "consumer":
		kill, start = c.in.node.Kill, c.in.serve
	}
	if err := kill(); err != nil {
		return err
	}
	rig.Pause(ctx, away)
	return start(ctx)
}

// deliver sends a delivery until it is acknowledged, and every third one twice at once.
func (c *campaign) deliver(ctx context.Context, n int) error {
	number, customer := fmt.Sprint(n), fmt.Sprint("c", n%customers)
	body := fmt.Appendf(nil, `{"number":%q,"customer":%q}`, number, customer)
	url := "http://" + c.out.cfg.Public + "/in/shop"
	send := func() (bool, error) {
		header := rig.StandardHeader([]byte(signing), "msg_"+number, time.Now(), body)
		header.Set("Content-Type", "application/json")
		status, answer, err := rig.Post(ctx, c.client, url, body, header)
		if err == nil && status/100 == 4 {
			return false, fmt.Errorf("delivery %s was answered %d: %s", number, status, answer)
		}
		return err == nil && status/100 == 2, nil
	}
	again := make(chan error, 1)
	if n%3 == 0 {
		go func() { _, err := send(); again <- err }()
	} else {
		again <- nil
	}
	err := rig.Poll(ctx, 50*time.Millisecond, patience, "a delivery to be acknowledged", send)
	if err == nil {
		c.mu.Lock()
		c.acknowledged[number] = customer
		c.mu.Unlock()
	}
	return errors.Join(err, <-again)
}

// evidence waits until everything has come to rest, and reads it.
func (c *campaign) evidence(ctx context.Context) (*Evidence, error) {
	if _, err := rig.Rest(ctx, c.out.DB, patience); err != nil {
		return nil, err
	}
	applied := func() (n int, err error) {
		err = c.in.DB.QueryRow(ctx, `SELECT count(DISTINCT number) FROM ledger`).Scan(&n)
		return n, err
	}
	// If some are still missing after that, Check reports them as lost.
	_ = rig.Until(ctx, patience, "everything to be applied", func() (bool, error) {
		n, err := applied()
		return n >= len(c.acknowledged), err
	})
	if _, err := rig.Rest(ctx, c.in.DB, patience); err != nil {
		return nil, err
	}
	v := &Evidence{Acknowledged: c.acknowledged, Kills: c.kills}
	rows, err := c.in.DB.Query(ctx, `SELECT number, customer FROM ledger ORDER BY at`)
	if err == nil {
		v.Applied, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Applied])
	}
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	states, err := rig.CountBy(ctx, c.out.DB, `SELECT state, count(*) FROM effect GROUP BY state`)
	if err != nil {
		return nil, err
	}
	for state, n := range states {
		if state == "done" {
			v.Published += n
		} else {
			v.Unfinished += n
		}
	}
	v.Messages, err = c.broker.ids(ctx)
	return v, err
}
