package mail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// Options say where a campaign runs.
type Options struct {
	// URL is the database and Schema the schema, which is made.
	URL, Schema string

	// Dir is the directory of the binary, the configuration and the log.
	Dir string

	// Progress reports each part; it may be nil.
	Progress func(format string, args ...any)
}

const secret = "mail-secret-mail-secret"

// sender is the sender of all messages.
const sender = "Shop <shop@sink.example>"

// restWithin is how long the effects may take to reach a resting state. Effects that get no answer wait for their
// limit, and a busy machine is slow.
const restWithin = 2 * time.Minute

// campaign is what both campaigns run on: the real binary, and a connection that reads its tables.
type campaign struct {
	options Options
	world   *lab.World
	config  rig.NodeConfig
	db      *pgx.Conn
	node    *rig.Node
	client  *http.Client
}

func prepare(ctx context.Context, o *Options, configuration string, env ...string) (*campaign, error) {
	c := &campaign{options: *o, client: rig.NewClient(8, time.Minute)}
	if c.options.Progress == nil {
		c.options.Progress = func(string, ...any) {}
	}
	var err error
	if c.world, err = lab.NewWorld(ctx, lab.WorldConfig{Name: "mail", Dir: o.Dir, DSN: o.URL}); err != nil {
		return c, err
	}
	if c.db, err = c.world.Prepare(ctx, o.Schema); err != nil {
		return c, err
	}
	path, err := c.world.WriteFile("oncegate.yml", configuration)
	if err != nil {
		return c, err
	}
	c.config = rig.NodeConfig{
		Name: "serve", Config: path, Schema: o.Schema,
		Env: append([]string{"LOG_LEVEL=warn", "MAIL_SECRET=" + secret}, env...),
	}
	c.node, err = c.world.Serve(ctx, c.config)
	return c, err
}

func (c *campaign) close(ctx context.Context) error {
	var errs []error
	if c.node != nil {
		errs = append(errs, c.node.Kill())
	}
	if c.db != nil {
		errs = append(errs, c.db.Close(context.WithoutCancel(ctx)))
	}
	return errors.Join(errs...)
}

// call makes one call of an operation under a key.
func (c *campaign) call(ctx context.Context, operation, key string, body any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("calling %s: %w", operation, err)
	}
	header := http.Header{
		"Content-Type": {"application/json"}, "Authorization": {"Bearer " + secret},
		"Idempotency-Key": {key}, "Oncegate-Operation": {operation},
	}
	status, answer, err := rig.Post(ctx, c.client, c.node.SourceURL("mails"), content, header)
	if err != nil {
		return err
	}
	// A call that arrives while the same call is under way is answered 409.
	if status/100 != 2 && status != http.StatusConflict {
		return fmt.Errorf("the call of %s was answered %d: %s", operation, status, answer)
	}
	return nil
}

// waitForRest waits until no effect is under way.
func (c *campaign) waitForRest(ctx context.Context) error {
	return rig.Poll(ctx, 100*time.Millisecond, restWithin, "the effects to come to rest", func() (bool, error) {
		var busy bool
		err := c.db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM effect WHERE next_at IS NOT NULL)`).Scan(&busy)
		return !busy, err
	})
}
