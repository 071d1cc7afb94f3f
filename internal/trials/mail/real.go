package mail

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/mail"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// RealOptions say how many messages are sent.
type RealOptions struct {
	Options

	// Singles is the number of single mails, and List the length of each of the two lists, which share a recipient.
	Singles, List int
}

// Evidence is the content of the Maildir and the database in the end.
type Evidence struct {
	Wanted    []Wanted
	Delivered []Delivered
	Effects   []Effect

	// AtKill is how many messages were in the Maildir when the process was killed, and UnderWay how many it may have
	// been sending.
	AtKill, UnderWay int
}

// Wanted is a message that a recipient should get once.
type Wanted struct{ Recipient, Subject string }

// Delivered is a message in the Maildir.
type Delivered struct {
	Message

	// Signature is its DKIM-Signature, and Received says how the mail server got it.
	Signature, Received string
}

// Effect is what the database says of a message.
type Effect struct {
	State   string
	Message Message // as it was rendered
}

const concurrency = 8

const realConfiguration = `
work: { lease: 5s, sweep_every: 1s }
targets:
  post: { kind: mail, smtp: "smtp://%s", from: "%s", concurrency: %d, rate: 100/s, dkim: { domain: sink.example, selector: trial, key: env:DKIM_KEY } }
sources:
  mails:
    provider: operation
    secrets: [{ env: MAIL_SECRET, name: shop }]
    max_body: 8MiB
    routes:
      - { name: receipt, types: [receipt], target: post, key: { fields: [body.invoice] }, mail: { to: body.to, subject: "Receipt {{.Body.invoice}}", text: "Thank you." } }
      - { name: news, types: [news], target: post, key: { fields: [body.campaign] }, mail: { to: body.to, subject: "News of {{.Body.campaign}}", text: "Dear {{.To}},\n\nthis is the news." } }
`

// RunReal mails through the binary and the distribution's Postfix, and kills the binary meanwhile.
func RunReal(ctx context.Context, o RealOptions) (v *Evidence, err error) {
	a, err := newAuthority()
	if err != nil {
		return nil, err
	}
	roots := filepath.Join(o.Dir, "roots.pem")
	if err := a.writeRoots(roots); err != nil {
		return nil, err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	pemKey := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	p, err := startPostfix(ctx, a)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	c, err := newCampaign(ctx, &o.Options, "SSL_CERT_FILE="+roots, "DKIM_KEY="+string(pemKey))
	if err != nil {
		return nil, err
	}
	defer func() { err = c.End(err, "./scripts/mail", p.log()) }()
	if err := c.prepare(ctx, realConfiguration, p.address, sender, concurrency); err != nil {
		return nil, err
	}
	return c.mailThrough(ctx, p, &o)
}

func (c *campaign) mailThrough(ctx context.Context, p *postfix, o *RealOptions) (*Evidence, error) {
	v := &Evidence{UnderWay: concurrency}
	began := time.Now()
	if err := c.callAll(ctx, v, o); err != nil {
		return nil, err
	}
	if err := rig.Until(ctx, restWithin, "a third of the messages to arrive", func() (bool, error) {
		n, err := p.count()
		v.AtKill = n
		return n >= len(v.Wanted)/3, err
	}); err != nil {
		return nil, err
	}
	if err := c.node.Kill(); err != nil {
		return nil, err
	}
	var err error
	if c.node, err = c.Serve(ctx, rig.NodeConfig{}); err != nil {
		return nil, err
	}
	if err := c.Rest(ctx, restWithin); err != nil {
		return nil, err
	}
	if err := rig.Until(ctx, restWithin, "the mail server to deliver what it took", p.idle); err != nil {
		return nil, err
	}
	c.Progress("%d messages wanted, killed when %d had arrived: %.1f s", len(v.Wanted), v.AtKill, time.Since(began).Seconds())
	if v.Delivered, err = p.read(); err != nil {
		return nil, err
	}
	v.Effects, err = c.effects(ctx)
	return v, err
}

// callAll makes all calls: each invoice is announced by two, each list by one, and each call is made twice at once.
func (c *campaign) callAll(ctx context.Context, v *Evidence, o *RealOptions) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	twice := func(operation, key string, body any) {
		for range 2 {
			group.Go(func() error { return c.call(ctx, operation, key, body) })
		}
	}
	recipient := func(i int) string { return fmt.Sprintf("r%d@example.com", i) }
	lists := [][]string{make([]string, o.List), make([]string, o.List)}
	for i := range lists[0] {
		lists[0][i], lists[1][i] = recipient(i), recipient(i+o.List-1) // the last of the first is the first of the second
	}
	for i := range 2*o.List - 1 {
		v.Wanted = append(v.Wanted, Wanted{recipient(i), "News of may"})
	}
	for i, to := range lists {
		twice("news", fmt.Sprintf("list-%d-of-the-news-of-may", i), map[string]any{"campaign": "may", "to": to})
	}
	for i := range o.Singles {
		invoice, to := fmt.Sprintf("in_%d", i), fmt.Sprintf("s%d@example.com", i)
		v.Wanted = append(v.Wanted, Wanted{to, "Receipt " + invoice})
		for _, event := range []string{"paid", "settled"} {
			twice("receipt", "the-invoice-"+invoice+"-is-"+event, map[string]any{"invoice": invoice, "to": to})
		}
	}
	return group.Wait()
}

// effects are the messages that the database knows, without their duplicates.
func (c *campaign) effects(ctx context.Context) ([]Effect, error) {
	rows, err := c.DB.Query(ctx, `SELECT state, rendered FROM effect WHERE rendered IS NOT NULL AND state <> 'duplicate'`)
	if err != nil {
		return nil, fmt.Errorf("reading the effects: %w", err)
	}
	defer rows.Close()
	var all []Effect
	for rows.Next() {
		var e Effect
		var rendered []byte
		if err := rows.Scan(&e.State, &rendered); err != nil {
			return nil, fmt.Errorf("reading the effects: %w", err)
		}
		if bytes.HasPrefix(rendered, []byte("[")) {
			continue // the recipients of a list
		}
		m, err := mail.ReadMessage(bytes.NewReader(rendered))
		if err != nil {
			return nil, fmt.Errorf("reading a rendered message: %w", err)
		}
		to, err := m.Header.AddressList("To")
		if err != nil || len(to) != 1 {
			return nil, fmt.Errorf("a rendered message is to %q: %w", m.Header.Get("To"), err)
		}
		e.Message = Message{ID: m.Header.Get("Message-Id"), Recipient: to[0].Address, Subject: m.Header.Get("Subject")}
		all = append(all, e)
	}
	return all, rows.Err()
}
