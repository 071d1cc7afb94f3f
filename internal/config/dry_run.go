package config

import (
	"errors"

	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/internal/jsonspan"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// DryRun configures how to ask a target what it would do.
type DryRun struct {
	// URL is the address of the request. Its path and query may contain expressions in braces,
	// which cannot use the idempotency key.
	URL string
	// Values maps the text of each expression in URL to its program.
	Values map[string]*expression.Program
	// Method is GET, POST, PUT or PATCH. It defaults to POST.
	Method string
	// Headers are sent with the request. Their values are never printed.
	Headers map[string]string
	// Body computes the body. Nil sends the body that an attempt would send.
	Body *expression.Mapping
	// Volatile lists members that are ignored when a response is compared with the stored result.
	Volatile []string

	node *yamltree.Node
}

// VolatilePaths returns Volatile with each path split into names.
func (d *DryRun) VolatilePaths() [][]string {
	out := make([][]string, 0, len(d.Volatile))
	for _, path := range d.Volatile {
		if names, err := jsonspan.ParsePath(path); err == nil { // checked by volatilePath at load time
			out = append(out, names)
		}
	}
	return out
}

// DryRunConfig returns the configuration of the dry run for package forward. It includes the
// target's own configuration, because the dry run must not be the same request. The caller must set
// the functions for the values and the body.
func (t *Target) DryRunConfig() forward.DryRunnerConfig {
	sender := t.ForwardConfig()
	cfg := forward.DryRunnerConfig{
		URL: t.DryRun.URL, Values: addressValues(t.DryRun.Values), Method: t.DryRun.Method, Headers: t.DryRun.Headers,
		Sign: sender.Sign, Real: &sender, Allow: t.Allow, Timeout: t.Timeout,
	}
	if t.DryRun.Body != nil {
		cfg.Body = func(*effect.Call) ([]byte, error) { return nil, errUnbound }
	}
	return cfg
}

func (d *DryRun) keys() []Key {
	return []Key{
		reference("url", &d.URL, forwardURL, "required", "The address to ask. Expressions in braces may stand in it as in the `url` of the target, but for `key_uuid`."),
		value("method", &d.Method, oneOf("GET", "POST", "PUT", "PATCH"), "`POST`", "`GET`, `POST`, `PUT` or `PATCH`. A `GET` has no body."),
		headers("headers", &d.Headers, "none", "Headers of the question. The headers of the target are not sent along. Their values are never printed."),
		mapping("body", &d.Body, (*reader).dryRunExpression, "what would be sent today", "An expression, or an object of expressions, that makes a JSON body, as in `map` of a route. They see no `key`."),
		list("volatile", &d.Volatile, words(volatilePath), "none", "Members in which the answer may differ from the stored result: paths such as `id` or `items.*.at`, in which `*` is any member or element."),
	}
}

func (r *reader) dryRun(n *yamltree.Node) *DryRun {
	d := &DryRun{node: n}
	r.fields(n, d.keys())
	if n.Sound() && d.URL == "" {
		n.Fail("url is missing: where the target is asked what it would do")
	}
	return d
}

// dryRunExpression reads an expression that cannot use the idempotency key.
func (r *reader) dryRunExpression(n *yamltree.Node, use func(*expression.Program)) {
	r.expression(n, expression.Value, use)
}

func volatilePath(s string) (string, error) {
	_, err := jsonspan.ParsePath(s)
	return s, err
}

// checkDryRun checks that a dry run is valid and is not the request that does the target's work.
func (r *reader) checkDryRun(t *Target) {
	d := t.DryRun
	if d == nil || !d.node.Sound() {
		return
	}
	at := d.node.Member("url")
	d.Values = r.keylessValues(at, valueTexts(d.URL), "a dry run")
	if !at.Sound() {
		return
	}
	_, err := forward.NewDryRunner(t.DryRunConfig())
	failLines(d.node, err)
}

// checkDryRunsApart checks each dry run against the other targets, because its URL may be a copy of
// theirs.
func (r *reader) checkDryRunsApart(targets []*Target) {
	for _, t := range targets {
		if t.DryRun == nil || !t.DryRun.node.Sound() || !t.node.Sound() {
			continue
		}
		for _, other := range targets {
			if other == t || other.Kind != KindForward || !other.node.Sound() {
				continue
			}
			cfg, work := t.DryRunConfig(), other.ForwardConfig()
			cfg.Real = &work
			if _, err := forward.NewDryRunner(cfg); errors.Is(err, forward.ErrSameRequest) {
				t.DryRun.node.Fail("it is the request that does the work of target %s: give it a different url, method, header or body", other.Name)
			}
		}
	}
}
