package config

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"

	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/forward"
	"github.com/oncegate/oncegate/jobs/effect/sql"
)

func (r *reader) targets(n *yamltree.Node) {
	cfg := r.cfg
	for _, member := range n.Members() {
		if r.named(member) {
			cfg.Targets = append(cfg.Targets, r.target(member))
		}
	}
	r.checkDryRunsApart(cfg.Targets)
}

// target reads one target. A key that its kind does not have is a problem.
func (r *reader) target(n *yamltree.Node) *Target {
	t := &Target{Name: n.Name(), KeyHeader: forward.DefaultKeyHeader, node: n}
	kindNode := n.Member("kind")
	switch {
	case !n.IsMapping() && !n.IsEmpty():
		n.Fields(nil) // reports that the node is not a mapping
		return t
	case kindNode == nil:
		n.FailKey("kind is missing; known are %s", kinds(r.dev))
		return t
	case !yamltree.Read(kindNode, &t.Kind, func(s string) (Kind, error) { return kind(s, r.dev) }):
		return t // its other keys depend on the kind
	}
	start(t.keys())
	r.fields(n, t.keys())
	if t.Kind == KindForward && n.Lacks("idempotent") {
		for _, line := range idempotentMissing("idempotent: true", "idempotent: false") {
			n.FailKey("%s", line)
		}
	}
	if r.targetSound(n) {
		r.checkTarget(t)
	}
	return t
}

// targetSound reports whether every key that the target has is valid. Missing keys do not matter,
// because the remaining keys can still be checked.
func (r *reader) targetSound(n *yamltree.Node) bool {
	return !slices.ContainsFunc(n.Members(), func(member *yamltree.Node) bool { return !member.Sound() })
}

// keys declares the keys of a target of its kind.
func (t *Target) keys() []Key {
	common := []Key{
		value("kind", &t.Kind, oneOf(t.Kind), "required", "`forward`, `publish`, `sql`, `mail`, `suppress`, or `noop`, which does nothing and is for benchmarks.").later(),
		value("timeout", &t.Timeout, duration, "`10s`", "The longest attempt. It must be shorter than `work.lease` by a fifth of the lease, at most 5 s."),
		t.Retry.key("see [Retry](#retry)", "When a failed attempt is repeated, and how often."),
		value("concurrency", &t.Concurrency, integer(1), "three quarters of the workers at most; `20` for mail", "How many attempts this process makes at once."),
		value("rate", &t.Rate, perTime, "none", "How many attempts this process begins: `50/s`, `100/m` or `1000/h`. An effect above the rate waits and spends no attempt."),
		t.Breaker.key("see [Breaker](#breaker)", "When attempts at a failing target stop. `off` turns the breaker off."),
	}
	switch t.Kind {
	case KindForward:
		return append(common, t.forwardKeys()...)
	case KindSQL:
		return append(common, t.sqlKeys()...)
	case KindMail:
		return append(common, t.mailKeys()...)
	case KindPublish:
		return append(common, t.publishKeys()...)
	case KindSuppress:
		return append(common, t.Suppress.keys()...)
	case KindNoop, KindDev, KindHandler:
	}
	return common
}

func (t *Target) forwardKeys() []Key {
	retried := statuses(400, ", such as 503")
	return []Key{
		reference("url", &t.URL, forwardURL, "required", "Where the request goes. [Expressions](#expressions) in braces may stand in its path and its query, as in `https://api.example/orders/{body.id}`. See [Values of the event in the address](../guides/http-target.md#values-of-the-event-in-the-address)."),
		value("idempotent", &t.Idempotent, boolean, "required", "`true`: the target recognises a key that it has seen, and a failed attempt is retried under that key. `false`: an effect is sent again only if it certainly did not happen. A single 5xx or timeout then leaves its outcome to a person or a probe.").shown(),
		value("method", &t.Method, oneOf("POST", "PUT", "PATCH"), "`POST`", "`POST`, `PUT` or `PATCH`."),
		secrets("sign", &t.Sign, "none", "Secrets that the request is signed with ([Standard Webhooks](https://www.standardwebhooks.com)), newest first."),
		list("allow", &t.Allow, network, "none", "Private networks that the host name of `url` may lead to. An address that is written out in `url` is allowed. Link-local addresses, metadata services and multicast are never allowed."),
		value("key_header", &t.KeyHeader, words(headerName), "`Idempotency-Key`", "The header that carries the idempotency key."),
		value("key_window", &t.KeyWindow, duration, "for ever", "How long the target remembers a key. Oncegate makes no attempt later than this after an attempt whose outcome is unknown."),
		headers("headers", &t.Headers, "none", "Headers that every request carries. Their values are never printed."),
		list("pass_headers", &t.PassHeaders, words(canonicalHeader), "none", "Headers of the delivery that are sent on, such as `[X-GitHub-Event]`. They are kept with the delivery for that. Credentials are refused."),
		list("retry_on", &t.RetryOn, retried, "`[429]`", "The statuses (400 to 599) by which the target says that it has not begun the work. They are retried even with `idempotent: false`. The list replaces the default: `[503]` makes a 429 an unknown outcome, and `[]` retries no answer. See [Which answers are retried](../guides/http-target.md#which-answers-are-retried) before you add one.").by(func(_ *reader, n *yamltree.Node) {
			t.RetryOn = append([]int{}, yamltree.ReadList(n, retried.parse)...) // an empty list is not nil
		}),
		value("keep_reply", &t.KeepReply, boolean, "`false`", "Keep the body of a successful reply as the result of the effect, up to 64 KiB."),
		value("replayed_header", &t.ReplayedHeader, words(headerName), "`Idempotent-Replayed`", "The header by which a reply says that the target knew the key."),
		part("probe", "probe", &t.Probe, (*reader).probe, (*Probe).keys, "none", "How the target is asked about an unknown outcome."),
		reference("test_url", &t.TestURL, forwardURL, "none", "Where `oncegate targets test` sends its test event, without expressions. It must be another address than `url`, because nothing may be done for a test event."),
		part("dry_run", "dry_run", &t.DryRun, (*reader).dryRun, (*DryRun).keys, "none", "How the target is asked what it would do. See [Dry run](#dry-run)."),
	}
}

func (t *Target) sqlKeys() []Key {
	return []Key{
		value("call", &t.Call, words(functionName), "none", "A function of one `jsonb` argument, such as `ledger.apply_event`."),
		value("statement", &t.Statement, words(verbatim), "none", "One SQL statement with parameters written as `@name`."),
		value("keep_reply", &t.KeepReply, boolean, "`false`", "Keep what the function returns, or the rows of the statement (`RETURNING`), as the result of the effect, as JSON up to 64 KiB. Such effects are carried out one at a time and not in groups."),
		list("dead_on", &t.DeadOn, words(verbatim), "none", "SQLSTATEs such as `P0002`, or classes such as `\"38\"`, that make a dead letter without another attempt. Classes 22, 23 and 42 and P0001 always do. Every other error is retried. See [Which errors are retried](../guides/sql-target.md#which-errors-are-retried)."),
		programs("parameters", &t.Parameters, (*reader).parameters, "none", "An expression for each parameter of `statement`."),
	}
}

func (t *Target) mailKeys() []Key {
	return []Key{
		reference("smtp", &t.SMTP, verbatim, "required", "`smtp://host:587` or `smtps://host:465`."),
		value("from", &t.From, words(verbatim), "required", "The sender's address, such as `Shop <shop@example.com>`."),
		value("starttls", &t.StartTLS, words(verbatim), "`required`", "`off` sends in the clear, without a password."),
		reference("username", &t.Username, verbatim, "none", "The account at the mail server."),
		secrets("password", &t.Password, "none", "The password of the account, as a list of secret references."),
		value("hello", &t.Hello, words(hostName), "`localhost`", "The name by which this process greets the mail server."),
		value("templates", &t.Templates, words(verbatim), "none", "A directory with `<name>.subject.txt` and `<name>.txt`, `<name>.html` or both. A relative path starts at the configuration file."),
		part("dkim", "dkim", &t.DKIM, (*reader).dkim, (*DKIM).keys, "none", "How messages are signed with DKIM. Without it the mail server must sign them. See [SPF, DKIM and DMARC](../guides/mail-delivery.md#spf-dkim-and-dmarc)."),
		list("allow", &t.Allow, network, "none", "Private networks that the host name of `smtp` may lead to."),
	}
}

// checkTarget checks a target's keys against each other.
func (r *reader) checkTarget(t *Target) {
	switch {
	case t.Kind == KindForward && t.URL == "":
		t.node.FailKey("url is missing")
	case t.Kind == KindSQL && t.Call == "" && t.Statement == "":
		t.node.FailKey("call is missing: the function to call, such as ledger.apply_event; or a statement")
	case t.Kind == KindSQL:
		r.sql(t)
	case t.KeyWindow > 0 && !t.Idempotent && t.node.Member("idempotent") != nil:
		t.node.FailKey("key_window needs idempotent: true")
	case t.Kind == KindForward:
		// Package forward validates the configuration.
		if !r.urlValues(t) {
			return
		}
		_, err := forward.New(t.ForwardConfig())
		failLines(t.node.Below(""), err)
		if err == nil {
			r.checkDryRun(t)
			r.checkTestURL(t)
		}
	case t.Kind == KindMail:
		r.mail(t)
	case t.Kind == KindPublish:
		r.publish(t)
	case t.Kind == KindSuppress:
		r.suppress(t)
	}
}

// checkTestURL checks the address of test events.
func (r *reader) checkTestURL(t *Target) {
	if t.TestURL == "" {
		return
	}
	cfg := t.ForwardConfig()
	if err := forward.CheckTestAddress(&cfg, t.TestURL); err != nil {
		t.node.Below("test_url").Fail("%v", err)
	}
}

// idempotentMissing explains the cost of each choice. There is no default because a wrong true
// repeats a charge, and a wrong false stops at the first failure.
func idempotentMissing(yes, no string) []string {
	return []string{
		"idempotent is missing. Set " + yes + " if the target recognises a key that it has seen: " +
			"an attempt that fails is retried under the same key, and the target must not do the work again",
		"otherwise set " + no + ": each effect is sent at most once, " +
			"and a single 5xx or timeout leaves its outcome to a person or a probe",
	}
}

// ForwardConfig returns the configuration of the target for package forward.
func (t *Target) ForwardConfig() forward.Config {
	cfg := forward.Config{
		URL: t.URL, Values: addressValues(t.Values), Method: t.Method, Allow: t.Allow, Idempotent: t.Idempotent, RetryOn: t.RetryOn, KeyHeader: t.KeyHeader, Headers: t.Headers,
		Pass: t.PassHeaders, ReplayedHeader: t.ReplayedHeader, KeepReply: t.KeepReply,
	}
	for _, key := range t.Keys() {
		cfg.Sign = append(cfg.Sign, string(key.Value))
	}
	return cfg
}

// sql validates the configuration of a sql target with package sql.
func (r *reader) sql(t *Target) {
	parameters := make(map[string]sql.Parameter, len(t.Parameters))
	for name := range t.Parameters {
		parameters[name] = func(*effect.Call) (any, error) { return nil, nil } //nolint:nilnil // only the names are checked
	}
	_, err := sql.New(sql.Config{Call: t.Call, Statement: t.Statement, Parameters: parameters, DeadOn: t.DeadOn})
	failLines(t.node.Below(""), err)
}

// parameters reads the values of a statement's parameters, by name.
func (r *reader) parameters(n *yamltree.Node) map[string]*expression.Program {
	out := map[string]*expression.Program{}
	for _, member := range n.Members() {
		r.requestExpression(member, func(p *expression.Program) { out[member.Name()] = p })
	}
	return out
}

var hostForm = regexp.MustCompile(`^[A-Za-z0-9.-]{1,253}$`)

func hostName(s string) (string, error) {
	if !hostForm.MatchString(s) {
		return "", errors.New("not a host's name")
	}
	return s, nil
}

// headers reads additional headers. A value may be a reference.
func (r *reader) headers(n *yamltree.Node) map[string]string {
	out := map[string]string{}
	for _, member := range n.Members() {
		if _, err := headerName(member.Name()); err != nil {
			member.FailKey("%v", err)
			continue
		}
		out[member.Name()] = ""
		r.readReference(member, func(text string) (err error) {
			out[member.Name()], err = headerValue(text)
			return err
		})
	}
	return out
}

func canonicalHeader(s string) (string, error) {
	name, err := headerName(s)
	return http.CanonicalHeaderKey(name), err
}

// checkPassed reports pass_headers that contain credentials of a source's requests, which Oncegate
// does not even store.
func (r *reader) checkPassed(s *Source) {
	if s.Provider == nil {
		return
	}
	credentials := s.Provider.Spec().CredentialHeaders()
	for _, route := range s.Routes {
		if route.Target == nil {
			continue
		}
		for _, name := range route.Target.PassHeaders {
			if slices.Contains(credentials, name) {
				route.Target.node.Below("pass_headers").Fail("%s is a credential of %s, which route %s of source %s would pass on",
					name, s.Provider.Name(), route.Name, s.Name)
			}
		}
	}
}

func (p *Retry) keys() []Key {
	return []Key{
		value("attempts", &p.Attempts, integer(1), "`12`", "How many attempts are made before the effect is a dead letter."),
		value("base", &p.Base, duration, "`5s`", "The pause after the first failure. Each further pause is twice as long, with jitter."),
		value("max", &p.Max, duration, "`1h`", "The longest pause."),
		value("deadline", &p.Deadline, duration, "none", "How long after the receipt of the event, or after new attempts were given, an attempt may begin. After that no attempt begins, not even the first. An effect that waits for a breaker, a rate, a limit or its turn in a sequence is then dead (`deadline_passed`)."),
	}
}

// key declares the key retry of a target or route.
func (p *Retry) key(fallback, text string) Key {
	return inside("retry", "retry", p.keys, fallback, text).by(func(r *reader, n *yamltree.Node) { r.retry(p, n) })
}

func (r *reader) retry(into *Retry, n *yamltree.Node) {
	r.fields(n, into.keys())
	if into.Base > 0 && into.Max > 0 && into.Max < into.Base {
		n.Fail("max %s is shorter than base %s", yamltree.FormatDuration(into.Max), yamltree.FormatDuration(into.Base))
	}
}

func kinds(dev bool) string {
	if dev {
		return "dev, forward, mail, noop, publish, sql, suppress"
	}
	return "forward, mail, noop, publish, sql, suppress"
}

func kind(s string, dev bool) (Kind, error) {
	switch k := Kind(s); {
	case k == KindForward, k == KindMail, k == KindSQL, k == KindNoop, k == KindPublish, k == KindSuppress, k == KindDev && dev:
		return k, nil
	case k == KindDev:
		return "", fmt.Errorf("only `oncegate dev` has it; known are %s", kinds(dev))
	case s == "handler":
		return "", fmt.Errorf("is Go code in your own service; known here are %s", kinds(dev))
	}
	return "", fmt.Errorf("unknown kind; known are %s", kinds(dev))
}
