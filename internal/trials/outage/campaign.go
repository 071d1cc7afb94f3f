package outage

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// Options say how long a campaign is.
type Options struct {
	Cycles int
	Seed   uint64

	// Always has every delivery go through the buffer, and the effects of a customer follow the order of arrival. Otherwise
	// deliveries are buffered while the database is away, and the effects of a customer follow numbers.
	Always bool

	// Fault is the only fault of the database that the campaign makes. It may be empty.
	Fault string

	Progress func(format string, args ...any)
}

// Evidence is what there is in the end.
type Evidence struct {
	// Deliveries are the deliveries in the order in which each customer's were sent.
	Deliveries []Delivery

	// Applied are the rows of the ledger in their order.
	Applied []Applied

	// Buffered is how many deliveries were answered "buffered", and Slowest the longest time that a delivery took.
	Buffered int
	Slowest  time.Duration

	Faults map[string]int
}

// Delivery is one delivery.
type Delivery struct {
	Customer, Number int

	// Status is that of the answer, or 0 without one.
	Status int

	// Excused means that the buffer was away for a part of the time that the delivery took. Electing means that its servers had
	// lost their leader, and had not elected another one yet.
	Excused, Electing bool
}

// Applied is one row of the ledger.
type Applied struct{ Customer, Number int }

// signing is the key of the deliveries, in plain text.
const signing = "secret-secret-secret"

const (
	customers = 16
	patience  = 5 * time.Minute
)

const configuration = `
work: { lease: 5s, sweep_every: 1s }
buffer: { url: "%s", replicas: 3, when: %s, after: 1s }
targets:
  ledger: { kind: sql, statement: "INSERT INTO ledger (customer, number) VALUES (@customer::int, @number::int)", parameters: { customer: body.customer, number: body.number }, retry: { base: 200ms, max: 1s, attempts: 100000 }, breaker: off }
sources:
  shop:
    provider: standard-webhooks
    secrets: [env:SHOP_SECRET]
    routes: [{ name: ledger, target: ledger, order: %s }]
`

type campaign struct {
	*lab.Campaign
	options Options
	random  *rand.Rand
	proxies []*rig.Proxy // of both servers of PostgreSQL
	cluster *cluster
	nodes   []*rig.Node
	client  *http.Client

	primary, standby *devpg.Server

	mu       sync.Mutex
	evidence Evidence
	excused  []span // when the buffer was away
}

// span is a time. Its end is zero while it lasts.
type span struct {
	from, to time.Time
	electing bool
}

// Run runs a campaign in a world with a PostgreSQL of its own.
func Run(ctx context.Context, w *lab.World, o Options) (v *Evidence, err error) {
	c := &campaign{
		Campaign: lab.NewCampaign(w, "outage_"+rig.RunID(), o.Progress, "LOG_LEVEL=warn", "SHOP_SECRET=whsec_"+base64.StdEncoding.EncodeToString([]byte(signing))),
		options:  o, random: rig.Random(o.Seed, 1), client: rig.NewClient(2*customers, 30*time.Second), evidence: Evidence{Faults: map[string]int{}},
		primary: w.Server,
	}
	repeat := fmt.Sprintf("./scripts/outage -cycles %d -seed %d -always=%t -fault=%q", o.Cycles, o.Seed, o.Always, o.Fault)
	defer func() { err = c.End(err, repeat) }()
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	sending, stop := context.WithCancel(ctx)
	defer stop()
	var senders sync.WaitGroup
	for customer := range customers {
		senders.Go(func() { c.send(sending, customer) })
	}
	for cycle := range o.Cycles {
		if err := c.cycle(ctx, cycle); err != nil {
			return nil, fmt.Errorf("cycle %d: %w", cycle+1, err)
		}
	}
	stop()
	senders.Wait()
	return c.finish(ctx)
}

// prepare starts the servers of the buffer, a standby, and two nodes that reach both servers of PostgreSQL through proxies.
func (c *campaign) prepare(ctx context.Context) (err error) {
	if err := c.Prepare(ctx, "CREATE TABLE ledger (at bigserial PRIMARY KEY, customer int NOT NULL, number int NOT NULL)"); err != nil {
		return err
	}
	if c.cluster, err = startCluster(ctx, c.Dir); err != nil {
		return err
	}
	c.OnEnd(c.cluster.end)
	through, err := c.prepareStandby(ctx)
	if err != nil {
		return err
	}
	when, order := "unavailable", "{ mode: contiguous, key: body.customer, number: body.number, start: 1, patience: 1h }"
	if c.options.Always {
		when, order = "always", "{ mode: arrival, key: body.customer }"
	}
	if err := c.Configure(configuration, c.cluster.url(), when, order); err != nil {
		return err
	}
	for _, name := range []string{"first", "second"} {
		node, err := c.Serve(ctx, rig.NodeConfig{Name: name, DSN: through})
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, node)
	}
	return nil
}

// send sends the deliveries of one customer, one after the other, each once.
func (c *campaign) send(ctx context.Context, customer int) {
	for number := 1; ctx.Err() == nil; number++ {
		body := fmt.Appendf(nil, `{"customer":%d,"number":%d}`, customer, number)
		began := time.Now()
		header := rig.StandardHeader([]byte(signing), fmt.Sprintf("msg_%d_%d", customer, number), began, body)
		header.Set("Content-Type", "application/json")
		status, answer, err := rig.PostOnce(context.WithoutCancel(ctx), c.client, c.nodes[(customer+number)%len(c.nodes)].SourceURL("shop"), body, header)
		if err != nil {
			status = 0
		}
		c.note(Delivery{Customer: customer, Number: number, Status: status}, string(answer), began)
		if status/100 != 2 {
			number-- // the sender's next delivery has the same number, so that no number is missing
		}
		rig.Pause(ctx, c.pace())
	}
}

// pace is how long a sender waits between two deliveries. Deliveries in the order of arrival are recorded one after the other.
func (c *campaign) pace() time.Duration {
	if c.options.Always {
		return 250 * time.Millisecond
	}
	return 50 * time.Millisecond
}

// note keeps what became of a delivery.
func (c *campaign) note(d Delivery, answer string, began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.excused {
		if s.to.IsZero() || s.to.After(began) {
			d.Excused, d.Electing = d.Excused || !s.electing, d.Electing || s.electing
		}
	}
	c.evidence.Deliveries = append(c.evidence.Deliveries, d)
	if took := time.Since(began); took > c.evidence.Slowest {
		c.evidence.Slowest = took
	}
	if buffered(answer) {
		c.evidence.Buffered++
	}
}

// excuse begins a time in which deliveries may be refused, because the buffer is away or elects a leader. The function that it
// returns ends it a little later, because servers that start need a moment to find a leader.
func (c *campaign) excuse(electing bool) (end func(ctx context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := len(c.excused)
	c.excused = append(c.excused, span{from: time.Now(), electing: electing})
	return func(ctx context.Context) error {
		var err error
		if !electing {
			err = c.cluster.settled(ctx)
		}
		rig.Pause(ctx, 2*time.Second) // the nodes connect again
		c.mu.Lock()
		defer c.mu.Unlock()
		c.excused[i].to = time.Now()
		return err
	}
}

// finish waits until everything has come to rest, and reads the ledger.
func (c *campaign) finish(ctx context.Context) (*Evidence, error) {
	acknowledged := 0
	for _, d := range c.evidence.Deliveries {
		if d.Status/100 == 2 {
			acknowledged++
		}
	}
	// If some are still missing after that, Check reports them as lost.
	_ = rig.Poll(ctx, time.Second, patience, "everything to be applied", func() (bool, error) {
		n := 0
		err := c.DB.QueryRow(ctx, `SELECT count(*) FROM (SELECT DISTINCT customer, number FROM ledger) applied`).Scan(&n)
		return n >= acknowledged, err
	})
	if _, err := rig.Rest(ctx, c.DB, patience); err != nil {
		return nil, err
	}
	rows, err := c.DB.Query(ctx, `SELECT customer, number FROM ledger ORDER BY at`)
	if err == nil {
		c.evidence.Applied, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Applied])
	}
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	return &c.evidence, errors.Join(ctx.Err())
}
