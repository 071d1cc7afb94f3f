package sender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"github.com/oncegate/oncegate/internal/drill/ledger"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// Client delivers the events of a ledger, each as its source's provider does.
type Client struct {
	Ledger  *ledger.Sent
	Sources []Source
	HTTP    *http.Client
}

// Deliver sends an event once to a node, signed now, and records the answer.
func (c *Client) Deliver(ctx context.Context, address, id string) ledger.Answer {
	return c.DeliverSigned(ctx, address, id, time.Now())
}

// DeliverSigned is [Client.Deliver] with the time of the signature.
func (c *Client) DeliverSigned(ctx context.Context, address, id string, at time.Time) ledger.Answer {
	e := c.Ledger.Get(id)
	a := c.post(ctx, address, &e, e.Body, at)
	c.Ledger.Answered(id, a)
	return a
}

// DeliverUntil sends an event to the node that address returns, again and again until it is acknowledged. It fails when
// the limit has passed, and at an answer that no repeat can cure.
func (c *Client) DeliverUntil(ctx context.Context, limit time.Duration, id string, address func() string) error {
	return rig.Poll(ctx, 50*time.Millisecond, limit, "an acknowledgement of "+id, func() (bool, error) {
		a := c.Deliver(ctx, address(), id)
		if a.Judged() && !a.Acknowledged() {
			return false, fmt.Errorf("delivering %s: it was answered %d", id, a.Status)
		}
		return a.Acknowledged(), nil
	})
}

// post sends a payload of an event, signed at a time.
func (c *Client) post(ctx context.Context, address string, e *ledger.Event, body []byte, at time.Time) ledger.Answer {
	source := c.source(e.Source)
	secret := source.Secret
	if e.Forged {
		secret = source.Wrong
	}
	status, content, err := rig.PostOnce(ctx, c.HTTP, "http://"+address+"/in/"+source.Name, body, source.header(secret, e.ID, e.Type, at, body))
	if err != nil {
		return ledger.Answer{ConnectionRefused: errors.Is(err, syscall.ECONNREFUSED)} // an acknowledgement that did not arrive is none
	}
	var receipt struct {
		Status string `json:"status"`
	}
	if status/100 == 2 && json.Unmarshal(content, &receipt) != nil {
		receipt.Status = "not JSON"
	}
	return ledger.Answer{Status: status, Receipt: receipt.Status}
}

func (c *Client) source(name string) *Source {
	for i := range c.Sources {
		if c.Sources[i].Name == name {
			return &c.Sources[i]
		}
	}
	panic("sender: there is no source " + name)
}
