package mail

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

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
	*lab.Campaign
	node   *rig.Node
	client *http.Client
}

func newCampaign(ctx context.Context, o *Options, variables ...string) (*campaign, error) {
	w, err := lab.NewWorld(ctx, lab.WorldConfig{Name: "mail", Dir: o.Dir, DSN: o.URL})
	if err != nil {
		return nil, err
	}
	variables = append(variables, "LOG_LEVEL=warn", "MAIL_SECRET="+secret)
	return &campaign{Campaign: lab.NewCampaign(w, o.Schema, o.Progress, variables...), client: rig.NewClient(8, time.Minute)}, nil
}

// prepare makes the schema and the configuration, and starts the node.
func (c *campaign) prepare(ctx context.Context, configuration string, args ...any) error {
	err := c.Prepare(ctx)
	if err != nil {
		return err
	}
	if err := c.Configure(configuration, args...); err != nil {
		return err
	}
	c.node, err = c.Serve(ctx, rig.NodeConfig{})
	return err
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
