package main

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"
)

// schema is the schema of the tables, in a PostgreSQL that the campaign starts.
const schema = "operators"

// variant describes how a configuration differs from the whole one.
type variant struct {
	name string

	// withoutExtra leaves out a route, elsewhere sends everything to the targets' other address, and latest changes
	// the order of a route.
	withoutExtra, elsewhere, latest bool
}

// variants are the configurations that servers are restarted with. The first is the whole one.
var variants = []variant{
	{name: "whole"},
	{name: "without a route", withoutExtra: true},
	{name: "targets moved", elsewhere: true},
	{name: "another order", latest: true},
}

const secretKey = "operators-0123456789abcdef" // of servers that live for minutes

// briefKept is how long the effects of the source brief are kept, as in the configuration.
const briefKept = 15 * time.Second

// Effects of the source brief are pruned after some seconds, and those of other sources not within a campaign. The route extra
// has the target of charge and takes the events that charge does not take, so that effects can be moved between them. The
// target asked can be probed. Only a 429 counts as an answer that precedes the target's work.
const configuration = `
%[1]s
work: { lease: 4s, sweep_every: 1s, workers: 40 }
log: { level: warn }
classes:
  brief: { effects: 15s, body: 1d }
targets:
  once:   { kind: forward, url: "http://%[2]s/once", idempotent: false, %[3]s }
  asked:  { kind: forward, url: "http://%[2]s/once/asked", idempotent: false, %[3]s,
            probe: { url: "http://%[2]s/probe/{key}", every: 1s, absent_after: 3s, timeout: 1s } }
  fulfil: { kind: forward, url: "http://%[2]s/once/fulfil", idempotent: false, %[3]s }
  idem:   { kind: forward, url: "http://%[2]s/idem", idempotent: true, keep_reply: true, %[3]s }
  ship:   { kind: forward, url: "http://%[2]s/idem/ship", idempotent: true, %[3]s }
sources:
  pay:
    provider: standard-webhooks
    secrets: [env:OPERATORS_SECRET]
    routes:
      - { name: charge, types: ["pay.*"], target: once }
      - { name: notify, types: ["pay.*"], target: idem }
      - { name: asked, types: ["pay.*"], target: asked }
      - { name: receipt, types: ["pay.*"], target: idem, key: { fields: [body.customer], keep: 1h } }
%[4]s
  orders:
    provider: standard-webhooks
    secrets: [env:OPERATORS_SECRET]
    routes:
      - { name: fulfil, types: ["*"], target: fulfil, order: { mode: contiguous, key: body.order, number: body.number, start: 1, patience: 1s, warn: 1s,
          on_gap: hold, on_dead: block, late: drop, no_key: hold, no_number: hold, ties: hold } }
      - { name: ship, types: ["*"], target: ship, order: { mode: contiguous, key: body.order, number: body.number, start: 1, patience: 1s, warn: 1s,
          on_gap: hold, on_dead: block, late: drop, no_key: hold, no_number: hold, ties: hold } }
      - { name: turns, types: ["*"], target: idem, order: { mode: %[5]s, no_key: apply } }
  brief:
    provider: standard-webhooks
    class: brief
    secrets: [env:OPERATORS_SECRET]
    routes:
      - { name: charge, types: ["*"], target: once }
      - { name: notify, types: ["*"], target: idem }
`

const (
	targetSettings = `timeout: 1s, breaker: off, retry: { attempts: 3, base: 50ms, max: 200ms }`
	extraRoute     = `      - { name: extra, types: ["bonus.*"], target: once, retry: { attempts: 40, base: 1s, max: 3s } }`
)

// text returns the configuration. Without a keyring nothing is sealed.
func (v *variant) text(keyring string, addresses [2]string) string {
	seal, address, extra, turns := "", addresses[0], extraRoute, "arrival, key: body.order, on_dead: skip"
	if keyring != "" {
		seal = fmt.Sprintf("seal: { keyring: %q }", "file:"+keyring)
	}
	if v.elsewhere {
		address = addresses[1]
	}
	if v.withoutExtra {
		extra = ""
	}
	if v.latest {
		turns = "latest, key: body.order, number: body.number, no_number: apply"
	}
	return fmt.Sprintf(configuration, seal, address, targetSettings, extra, turns)
}

func secret() string { return "whsec_" + base64.StdEncoding.EncodeToString([]byte(secretKey)) }

// keepsOrder reports whether a route has the same order in every variant.
func keepsOrder(route string) bool { return route == "fulfil" || route == "ship" }

// hasRecipe reports whether a route makes its keys of the meaning of its events.
func hasRecipe(route string) bool { return route == "receipt" }

// expectedRoutes returns the routes that take a type of a source in every variant.
func expectedRoutes(source, kind string) []string {
	switch {
	case source == "orders":
		return []string{"fulfil", "ship", "turns"}
	case source == "brief":
		return []string{"charge", "notify"}
	case strings.HasPrefix(kind, "pay."):
		return []string{"charge", "notify", "asked", "receipt"}
	}
	return nil
}
