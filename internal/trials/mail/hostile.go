package mail

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/oncegate/oncegate/internal/trials/lab"
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
	var servers []*hostileServer
	defer func() {
		for _, s := range servers {
			err = errors.Join(err, s.close())
		}
	}()
	var targets, routes strings.Builder
	for _, plan := range Plans() {
		s, err := startHostile(plan, authority)
		if err != nil {
			return nil, err
		}
		servers = append(servers, s)
		way := "starttls: off"
		if plan.Encrypted {
			way = "username: shop, password: [env:MAIL_SECRET]"
		}
		fmt.Fprintf(&targets, hostileTarget, plan.Name(), s.address(), sender, way)
		fmt.Fprintf(&routes, hostileRoute, plan.Name())
	}
	roots := filepath.Join(o.Dir, "roots.pem")
	if err := authority.writeRoots(roots); err != nil {
		return nil, err
	}
	c, err := prepare(ctx, &o, fmt.Sprintf(hostileConfiguration, targets.String(), routes.String()), "SSL_CERT_FILE="+roots)
	// This runs before the servers are closed, so that no client is connected to them any more.
	defer func() { err = errors.Join(err, c.close(ctx)) }()
	if err == nil {
		cases, err = c.sendToHostile(ctx, servers)
	}
	if err != nil {
		return nil, lab.ExplainFailure(err, "go test ./internal/trials/mail -run TestHostile", c.world.Logs("")...)
	}
	return cases, nil
}

func (c *campaign) sendToHostile(ctx context.Context, servers []*hostileServer) ([]Case, error) {
	for _, s := range servers {
		name := s.plan.Name()
		if err := c.call(ctx, name, "the-call-of-"+name, map[string]any{"to": recipientOf(s.plan)}); err != nil {
			return nil, err
		}
	}
	if err := c.waitForRest(ctx); err != nil {
		return nil, err
	}
	if err := c.node.Kill(); err != nil {
		return nil, err
	}
	cases := make([]Case, len(servers))
	for i, s := range servers {
		if err := s.close(); err != nil {
			return nil, err
		}
		cases[i] = Case{Plan: s.plan, Conversations: s.conversations()}
		found := &cases[i]
		if err := c.db.QueryRow(ctx, `SELECT e.state, coalesce(convert_from(e.result, 'UTF8'), ''), e.attempts
			FROM effect e JOIN inbox_event v ON v.id = e.event_id WHERE v.type = $1`, s.plan.Name()).Scan(&found.State, &found.ID, &found.Attempts); err != nil {
			return nil, fmt.Errorf("reading the effect of %s: %w", s.plan.Name(), err)
		}
	}
	return cases, nil
}

func recipientOf(p Plan) string { return p.Name() + "@example.com" }
