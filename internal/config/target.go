package config

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"

	"github.com/oncegate/oncegate/expression"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/forward"
	"github.com/oncegate/oncegate/jobs/effect/sql"
)

func (r *reader) targets(cfg *Config, n *yamltree.Node, dev bool) {
	for _, member := range n.Members() {
		if r.named(member) {
			cfg.Targets = append(cfg.Targets, r.target(member, dev))
		}
	}
	r.checkDryRunsApart(cfg.Targets)
}

// target reads one target. A key that its kind does not have is a problem.
func (r *reader) target(n *yamltree.Node, dev bool) *Target {
	t := &Target{Name: n.Name(), KeyHeader: "Idempotency-Key", node: n}
	kindNode := n.Member("kind")
	switch {
	case !n.IsMapping() && !n.IsEmpty():
		n.Fields(nil) // reports that the node is not a mapping
		return t
	case kindNode == nil:
		n.FailKey("kind is missing; known are %s", kinds(dev))
		return t
	case !yamltree.Read(kindNode, &t.Kind, func(s string) (Kind, error) { return kind(s, dev) }):
		return t // its other keys depend on the kind
	}
	n.Fields(r.targetKeys(t))
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

// targetKeys returns the readers of the keys that a target of its kind has.
func (r *reader) targetKeys(t *Target) map[string]func(*yamltree.Node) {
	keys := map[string]func(*yamltree.Node){
		"kind":        func(*yamltree.Node) {},
		"timeout":     yamltree.Duration(&t.Timeout),
		"retry":       func(n *yamltree.Node) { r.retry(&t.Retry, n) },
		"concurrency": yamltree.Integer(&t.Concurrency, 1),
		"rate":        yamltree.Value(&t.Rate, rate),
		"breaker":     func(n *yamltree.Node) { r.breaker(&t.Breaker, n) },
	}
	switch t.Kind {
	case KindForward:
		keys["url"] = r.reference(&t.URL, forwardURL)
		keys["sign"] = func(n *yamltree.Node) { t.Sign = r.secrets(n, "") }
		keys["idempotent"] = yamltree.Bool(&t.Idempotent)
		keys["retry_on"] = func(n *yamltree.Node) { t.RetryOn = r.retryOn(n) }
		keys["key_header"] = yamltree.Value(&t.KeyHeader, headerName)
		keys["headers"] = func(n *yamltree.Node) { t.Headers = r.headers(n) }
		keys["pass_headers"] = yamltree.List(&t.PassHeaders, canonicalHeader)
		keys["replayed_header"] = yamltree.Value(&t.ReplayedHeader, headerName)
		keys["keep_reply"] = yamltree.Bool(&t.KeepReply)
		keys["probe"] = func(n *yamltree.Node) { t.Probe = r.probe(n) }
		keys["dry_run"] = func(n *yamltree.Node) { t.DryRun = r.dryRun(n) }
		keys["key_window"] = yamltree.Duration(&t.KeyWindow)
		keys["method"] = yamltree.Word(&t.Method, "POST", "PUT", "PATCH")
		keys["allow"] = yamltree.List(&t.Allow, prefix)
	case KindSQL:
		keys["call"] = yamltree.Value(&t.Call, functionName)
		keys["statement"] = yamltree.Text(&t.Statement)
		keys["keep_reply"] = yamltree.Bool(&t.KeepReply)
		keys["dead_on"] = yamltree.List(&t.DeadOn, verbatim)
		keys["parameters"] = func(n *yamltree.Node) { t.Parameters = r.parameters(n) }
	case KindMail:
		keys["smtp"] = r.reference(&t.SMTP, verbatim)
		keys["from"] = yamltree.Text(&t.From)
		keys["starttls"] = yamltree.Text(&t.StartTLS)
		keys["username"] = r.reference(&t.Username, verbatim)
		keys["password"] = func(n *yamltree.Node) { t.Password = r.secrets(n, "") }
		keys["templates"] = yamltree.Text(&t.Templates)
		keys["hello"] = yamltree.Value(&t.Hello, hostName)
		keys["dkim"] = func(n *yamltree.Node) { t.DKIM = r.dkim(n) }
		keys["allow"] = yamltree.List(&t.Allow, prefix)
	case KindSuppress:
		r.suppressKeys(&t.Suppress, keys)
	case KindDev:
		t.Idempotent = true
	case KindNoop, KindHandler:
	}
	return keys
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
		}
	case t.Kind == KindMail:
		r.mail(t)
	case t.Kind == KindSuppress:
		r.suppress(t)
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

// retryOn reads the statuses by which a target says that it has not started the work. It returns an
// empty list, not nil, if the list is empty.
func (r *reader) retryOn(n *yamltree.Node) []int {
	return append([]int{}, yamltree.ReadList(n, retriedStatus)...)
}

func retriedStatus(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 400 || n > 599 {
		return 0, errors.New("not an HTTP status from 400 to 599, such as 503")
	}
	return n, nil
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
		var value string
		r.reference(&value, headerValue)(member)
		out[member.Name()] = value
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

func (r *reader) retry(into *Retry, n *yamltree.Node) {
	n.Fields(map[string]func(*yamltree.Node){
		"attempts": yamltree.Integer(&into.Attempts, 1),
		"base":     yamltree.Duration(&into.Base),
		"max":      yamltree.Duration(&into.Max),
		"deadline": yamltree.Duration(&into.Deadline),
	})
	if into.Base > 0 && into.Max > 0 && into.Max < into.Base {
		n.Fail("max %s is shorter than base %s", yamltree.FormatDuration(into.Max), yamltree.FormatDuration(into.Base))
	}
}

func kinds(dev bool) string {
	if dev {
		return "dev, forward, mail, noop, sql, suppress"
	}
	return "forward, mail, noop, sql, suppress"
}

func kind(s string, dev bool) (Kind, error) {
	switch k := Kind(s); {
	case k == KindForward, k == KindMail, k == KindSQL, k == KindNoop, k == KindSuppress, k == KindDev && dev:
		return k, nil
	case k == KindDev:
		return "", fmt.Errorf("only `oncegate dev` has it; known are %s", kinds(dev))
	case s == "handler":
		return "", fmt.Errorf("is Go code in your own service; known here are %s", kinds(dev))
	}
	return "", fmt.Errorf("unknown kind; known are %s", kinds(dev))
}
