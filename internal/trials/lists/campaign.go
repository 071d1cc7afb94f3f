package lists

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// Options say how long the lists are, and where they are mailed.
type Options struct {
	// Recipients is the length of each list.
	Recipients int

	// URL is the database and Schema the schema, which is made.
	URL, Schema string

	// Dir is the directory of the binary, the configuration and the log.
	Dir string

	// Progress reports each part; it may be nil.
	Progress func(format string, args ...any)
}

// Evidence is the content of the ledgers in the end.
type Evidence struct {
	Recipients []string

	// Undisturbed has the messages of the first list, Killed the messages of the second, and
	// Repeated the messages of the third.
	Undisturbed, Killed, Repeated map[Message]int

	// Added is the recipient that only the third list names.
	Added string

	// Indeterminate is how many messages of the second list were under way at a kill.
	Indeterminate int

	// Kills is how often the process was killed.
	Kills int
}

const secret = "lists-secret-lists-secret"

const configuration = `
work: { lease: 5s, sweep_every: 1s }
targets:
  post: { kind: mail, smtp: "smtp://%s", from: "Shop <shop@sink.example>", starttls: off }
sources:
  lists:
    provider: operation
    secrets: [{ env: LISTS_SECRET, name: shop }]
    max_body: 8MiB
    routes:
      - { name: news, types: [news], target: post, key: { fields: [body.campaign] }, mail: { to: body.to, subject: "News of {{.Body.campaign}}", text: "Dear {{.To}},\n\nthis is the news." } }
`

type campaign struct {
	*lab.Campaign
	options Options
	mail    *mailServer
	node    *rig.Node
	client  *http.Client
}

// Run mails the three lists and reads the ledgers.
func Run(ctx context.Context, o Options) (_ *Evidence, err error) {
	w, err := lab.NewWorld(ctx, lab.WorldConfig{Name: "lists", Dir: o.Dir, DSN: o.URL})
	if err != nil {
		return nil, err
	}
	c := &campaign{
		Campaign: lab.NewCampaign(w, o.Schema, o.Progress, "LOG_LEVEL=warn", "GOMEMLIMIT=160MiB", "LISTS_SECRET="+secret),
		options:  o, mail: &mailServer{taken: map[Message]int{}}, client: rig.NewClient(1, time.Minute),
	}
	defer func() { err = c.End(err, fmt.Sprintf("./scripts/lists %d", o.Recipients)) }()
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	v := &Evidence{Recipients: make([]string, o.Recipients), Added: "added@example.com"}
	for i := range v.Recipients {
		v.Recipients[i] = fmt.Sprintf("r%d@example.com", i+1)
	}
	return v, c.mailLists(ctx, v)
}

func (c *campaign) prepare(ctx context.Context) error {
	address, err := c.Listener(c.mail.serve)
	if err != nil {
		return err
	}
	if err := c.Prepare(ctx); err != nil {
		return err
	}
	if err := c.Configure(configuration, address); err != nil {
		return err
	}
	c.node, err = c.Serve(ctx, rig.NodeConfig{})
	return err
}

func (c *campaign) mailLists(ctx context.Context, v *Evidence) error {
	began := time.Now()
	if err := c.call(ctx, "first", "may", v.Recipients); err != nil {
		return err
	}
	if err := c.Rest(ctx, c.limit()); err != nil {
		return err
	}
	took := time.Since(began)
	peak, err := lab.PeakRSS(c.node.PID())
	if err != nil {
		return err
	}
	cpu, err := lab.CPU(c.node.PID())
	if err != nil {
		return err
	}
	v.Undisturbed = c.mail.drain()
	c.Progress("%d recipients, undisturbed: %.1f s, %.0f a second; %.1f s of processor time and at most %d MiB of memory in the process",
		len(v.Recipients), took.Seconds(), float64(len(v.Recipients))/took.Seconds(), cpu.Seconds(), peak>>20)

	began = time.Now()
	if err := c.call(ctx, "first", "june", v.Recipients); err != nil {
		return err
	}
	if err := c.kill(ctx, "some items to be written", v, func() (bool, error) {
		n, err := c.count(ctx, `SELECT count(*) FROM effect e JOIN inbox_event v ON v.id = e.event_id WHERE e.item > 0 AND v.event_id LIKE '%june%'`)
		return n > 0, err
	}); err != nil {
		return err
	}
	for range 2 {
		if err := c.killSending(ctx, v); err != nil {
			return err
		}
	}
	if err := c.Rest(ctx, c.limit()); err != nil {
		return err
	}
	if v.Indeterminate, err = c.count(ctx, `SELECT count(*) FROM effect WHERE state = 'indeterminate'`); err != nil {
		return err
	}
	v.Killed = c.mail.drain()
	c.Progress("%d recipients, killed %d times: %.1f s; %d messages were under way at a kill and wait for a person",
		len(v.Recipients), v.Kills, time.Since(began).Seconds(), v.Indeterminate)

	if err := c.call(ctx, "again", "june", append([]string{v.Added}, v.Recipients[1:]...)); err != nil {
		return err
	}
	if err := c.Rest(ctx, c.limit()); err != nil {
		return err
	}
	v.Repeated = c.mail.drain()
	return nil
}

// kill waits until holds returns true, kills the process, and starts it again.
func (c *campaign) kill(ctx context.Context, what string, v *Evidence, holds func() (bool, error)) error {
	if err := rig.Until(ctx, c.limit(), what, holds); err != nil {
		return err
	}
	if err := c.node.Kill(); err != nil {
		return err
	}
	v.Kills++
	var err error
	c.node, err = c.Serve(ctx, rig.NodeConfig{})
	return err
}

// killSending kills the process after it has sent an eighth of the messages that wait. On a busy machine the kill before
// left most messages under way, which are never sent, so a fixed share of the list would never be reached.
func (c *campaign) killSending(ctx context.Context, v *Evidence) error {
	waiting, err := c.count(ctx, `SELECT count(*) FROM effect WHERE item > 0 AND state IN ('pending', 'retry')`)
	if err != nil || waiting == 0 {
		return err
	}
	enough := c.mail.count() + (waiting+7)/8
	return c.kill(ctx, "some messages to be sent", v, func() (bool, error) { return c.mail.count() >= enough, nil })
}

// call makes one call of the operation, under a key that is made of the time and the month.
func (c *campaign) call(ctx context.Context, which, month string, to []string) error {
	body, err := json.Marshal(map[string]any{"campaign": month, "to": to})
	if err != nil {
		return err
	}
	header := http.Header{
		"Content-Type": {"application/json"}, "Authorization": {"Bearer " + secret},
		"Idempotency-Key": {fmt.Sprintf("the-%s-list-of-%s", which, month)}, "Oncegate-Operation": {"news"},
	}
	status, answer, err := rig.Post(ctx, c.client, c.node.SourceURL("lists"), body, header)
	if err != nil {
		return err
	}
	if status/100 != 2 {
		return fmt.Errorf("the call was answered %d: %s", status, answer)
	}
	return nil
}

func (c *campaign) count(ctx context.Context, sql string) (n int, err error) {
	err = c.DB.QueryRow(ctx, sql).Scan(&n)
	return n, err
}

// limit is a generous time for one list.
func (c *campaign) limit() time.Duration {
	return 2*time.Minute + time.Duration(c.options.Recipients)*60*time.Millisecond
}
