package mail

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// Case is the result of one message to a hostile server.
type Case struct {
	Plan Plan

	// Conversations are the server's conversations, in order.
	Conversations []Conversation

	// State and ID are the effect's state and its result, a Message-ID, in the database. Attempts is the number of
	// attempts.
	State    string
	ID       string
	Attempts int
}

const hostileConfiguration = `
work: { lease: 5s, sweep_every: 1s }
targets:
%ssources:
  mails:
    provider: operation
    secrets: [{ env: MAIL_SECRET, name: shop }]
    routes:
%s`

const (
	hostileTarget = "  %s: { kind: mail, smtp: \"smtp://%s\", from: %q, timeout: 2s, breaker: off, retry: { attempts: 6, base: 100ms, max: 400ms }, %s }\n"
	hostileRoute  = "      - { name: %[1]s, types: [%[1]s], target: %[1]s, mail: { to: body.to, subject: \"News for {{.To}}\", text: \"this is the news.\" } }\n"
)

// RunHostile sends one message to each of the hostile servers of [Plans], and reads the ledgers.
func RunHostile(ctx context.Context, o Options) (cases []Case, err error) {
	authority, err := newAuthority()
	if err != nil {
		return nil, err
	}
	roots := filepath.Join(o.Dir, "roots.pem")
	if err := authority.writeRoots(roots); err != nil {
		return nil, err
	}
	c, err := newCampaign(ctx, &o, "SSL_CERT_FILE="+roots)
	if err != nil {
		return nil, err
	}
	defer func() { err = c.End(err, "go test ./internal/trials/mail -run TestHostile") }()
	var servers []*hostileServer
	var targets, routes strings.Builder
	for _, plan := range Plans() {
		s := &hostileServer{plan: plan, authority: authority}
		if s.Server, err = rig.StartServer(s.serve); err != nil {
			return nil, err
		}
		c.OnEnd(s.Close)
		servers = append(servers, s)
		way := "starttls: off"
		if plan.Encrypted {
			way = "username: shop, password: [env:MAIL_SECRET]"
		}
		fmt.Fprintf(&targets, hostileTarget, plan.Name(), s.Address, sender, way)
		fmt.Fprintf(&routes, hostileRoute, plan.Name())
	}
	if err := c.prepare(ctx, hostileConfiguration, targets.String(), routes.String()); err != nil {
		return nil, err
	}
	return c.sendToHostile(ctx, servers)
}

func (c *campaign) sendToHostile(ctx context.Context, servers []*hostileServer) ([]Case, error) {
	for _, s := range servers {
		name := s.plan.Name()
		if err := c.call(ctx, name, "the-call-of-"+name, map[string]any{"to": recipientOf(s.plan)}); err != nil {
			return nil, err
		}
	}
	if err := c.Rest(ctx, restWithin); err != nil {
		return nil, err
	}
	if err := c.node.Kill(); err != nil {
		return nil, err
	}
	cases := make([]Case, len(servers))
	for i, s := range servers {
		if err := s.Close(); err != nil {
			return nil, err
		}
		cases[i] = Case{Plan: s.plan, Conversations: s.conversations()}
		found := &cases[i]
		if err := c.DB.QueryRow(ctx, `SELECT e.state, coalesce(convert_from(e.result, 'UTF8'), ''), e.attempts
			FROM effect e JOIN inbox_event v ON v.id = e.event_id WHERE v.type = $1`, s.plan.Name()).Scan(&found.State, &found.ID, &found.Attempts); err != nil {
			return nil, fmt.Errorf("reading the effect of %s: %w", s.plan.Name(), err)
		}
	}
	return cases, nil
}

func recipientOf(p Plan) string { return p.Name() + "@example.com" }
