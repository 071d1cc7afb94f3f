package config

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"github.com/oncegate/oncegate/expression"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/forward"
	"github.com/oncegate/oncegate/jobs/effect/sql"
)

func (r *reader) targets(cfg *Config, n ast.Node, dev bool) {
	for _, f := range r.fields(n, "targets") {
		if r.named(f, "targets") {
			cfg.Targets = append(cfg.Targets, r.target(f, dev))
		}
	}
}

// target reads one target. A key that its kind does not have is a problem.
func (r *reader) target(f field, dev bool) *Target {
	where := "targets." + f.name
	t := &Target{Name: f.name, KeyHeader: "Idempotency-Key", line: lineOf(f.key)}
	kindKnown := false
	for _, k := range r.peek(f.value, "kind") {
		before := len(r.problems)
		parsed(r, k, where+".kind", &t.Kind, func(s string) (Kind, error) { return kind(s, dev) })
		kindKnown = len(r.problems) == before
	}
	keys := map[string]func(field){
		"kind":    func(field) {},
		"timeout": r.duration(&t.Timeout, where),
		"retry":   func(f field) { r.retry(&t.Retry, f.value, where+".retry") },
	}
	keys["concurrency"] = r.count(&t.Concurrency, where, 1)
	keys["rate"] = func(f field) { parsed(r, f.value, where+".rate", &t.Rate, rate) }
	keys["breaker"] = func(f field) { r.breaker(&t.Breaker, f, where) }
	switch {
	case !kindKnown:
		if len(r.peek(f.value, "kind")) == 0 {
			r.line(t.line, "%s: kind is missing; known are %s", where, kinds(dev))
		}
		return t // its other keys depend on the kind
	case t.Kind == KindForward:
		keys["url"] = func(f field) { r.reference(f, where, &t.URL, httpURL) }
		keys["sign"] = func(f field) { t.Sign = r.secrets(f.value, where+".sign") }
		keys["idempotent"] = r.boolean(&t.Idempotent, where)
		keys["retry_on"] = func(f field) { t.RetryOn = r.retryOn(f.value, where+".retry_on") }
		keys["key_header"] = func(f field) { parsed(r, f.value, where+".key_header", &t.KeyHeader, headerName) }
		keys["headers"] = func(f field) { t.Headers = r.headers(f.value, where+".headers") }
		keys["pass_headers"] = func(f field) { t.PassHeaders = r.headerNames(f.value, where+".pass_headers") }
		keys["replayed_header"] = func(f field) { parsed(r, f.value, where+".replayed_header", &t.ReplayedHeader, headerName) }
		keys["keep_reply"] = r.boolean(&t.KeepReply, where)
		keys["probe"] = func(f field) { t.Probe = r.probe(f.value, where+".probe") }
		keys["key_window"] = r.duration(&t.KeyWindow, where)
		keys["method"] = func(f field) { parsed(r, f.value, where+".method", &t.Method, method) }
		keys["allow"] = func(f field) { t.Allow = r.networks(f.value, where+".allow") }
	case t.Kind == KindSQL:
		keys["call"] = func(f field) { parsed(r, f.value, where+".call", &t.Call, functionName) }
		keys["statement"] = func(f field) { parsed(r, f.value, where+".statement", &t.Statement, verbatim) }
		keys["parameters"] = func(f field) { t.Parameters = r.parameters(f.value, where+".parameters") }
	case t.Kind == KindMail:
		keys["smtp"] = func(f field) { r.reference(f, where, &t.SMTP, verbatim) }
		keys["from"] = func(f field) { parsed(r, f.value, where+".from", &t.From, verbatim) }
		keys["starttls"] = func(f field) { parsed(r, f.value, where+".starttls", &t.StartTLS, verbatim) }
		keys["username"] = func(f field) { r.reference(f, where, &t.Username, verbatim) }
		keys["password"] = func(f field) { t.Password = r.secrets(f.value, where+".password") }
		keys["templates"] = func(f field) { parsed(r, f.value, where+".templates", &t.Templates, verbatim) }
		keys["hello"] = func(f field) { parsed(r, f.value, where+".hello", &t.Hello, hostName) }
		keys["allow"] = func(f field) { t.Allow = r.networks(f.value, where+".allow") }
	case t.Kind == KindDev:
		t.Idempotent = true
	}
	before := len(r.problems)
	r.object(f.value, where, keys)
	if len(r.problems) == before {
		switch {
		case t.Kind == KindForward && t.URL == "":
			r.line(t.line, "%s: url is missing", where)
		case t.Kind == KindSQL && t.Call == "" && t.Statement == "":
			r.line(t.line, "%s: call is missing: the function to call, such as ledger.apply_event; or a statement", where)
		case t.Kind == KindSQL:
			r.sql(t, where)
		case t.KeyWindow > 0 && !t.Idempotent && len(r.peek(f.value, "idempotent")) > 0:
			r.line(t.line, "%s: key_window needs idempotent: true", where)
		case t.Kind == KindForward:
			r.forward(t, where)
		case t.Kind == KindMail:
			r.mail(t, where)
		}
	}
	if t.Kind == KindForward && len(r.peek(f.value, "idempotent")) == 0 {
		for _, line := range idempotentMissing("idempotent: true", "idempotent: false") {
			r.line(t.line, "%s: %s", where, line)
		}
	}
	return t
}

// idempotentMissing says what each answer costs. Neither is the default: a wrong true repeats a
// charge, and a wrong false stops at the first failure.
func idempotentMissing(yes, no string) []string {
	return []string{
		"idempotent is missing. Set " + yes + " if the target recognises a key that it has seen: " +
			"an attempt that fails is retried under the same key, and the target must not do the work again",
		"otherwise set " + no + ": each effect is sent at most once, " +
			"and a single 5xx or timeout leaves its outcome to a person or a probe",
	}
}

// forward asks the kind itself whether it can do what is configured.
func (r *reader) forward(t *Target, where string) {
	_, err := forward.New(t.ForwardConfig())
	if err == nil {
		return
	}
	for _, line := range lines(err) {
		r.line(t.line, "%s: %s", where, line)
	}
}

// ForwardConfig is the target as its kind takes it.
func (t *Target) ForwardConfig() forward.Config {
	cfg := forward.Config{
		URL: t.URL, Method: t.Method, Allow: t.Allow, Idempotent: t.Idempotent, RetryOn: t.RetryOn, KeyHeader: t.KeyHeader, Headers: t.Headers,
		Pass: t.PassHeaders, ReplayedHeader: t.ReplayedHeader, KeepReply: t.KeepReply,
	}
	for _, key := range t.Keys() {
		cfg.Sign = append(cfg.Sign, string(key.Value))
	}
	return cfg
}

// sql asks the kind itself whether it can do what is configured.
func (r *reader) sql(t *Target, where string) {
	parameters := make(map[string]sql.Parameter, len(t.Parameters))
	for name := range t.Parameters {
		parameters[name] = func(*effect.Call) (any, error) { return nil, nil } //nolint:nilnil // only the names are looked at
	}
	if _, err := sql.New(sql.Config{Call: t.Call, Statement: t.Statement, Parameters: parameters}); err != nil {
		for _, line := range lines(err) {
			r.line(t.line, "%s: %s", where, line)
		}
	}
}

// parameters reads the values of a statement's parameters, by name.
func (r *reader) parameters(n ast.Node, where string) map[string]*expression.Program {
	out := map[string]*expression.Program{}
	for _, f := range r.fields(n, where) {
		r.expression(f.value, where+"."+visible(f.name), expression.Value, func(p *expression.Program) { out[f.name] = p })
	}
	return out
}

// retryOn reads the statuses by which a target says that it has not begun the work.
// It gives an empty list, and not nil, for one that names none.
func (r *reader) retryOn(n ast.Node, where string) []int {
	out := []int{}
	for i, item := range r.list(n, where) {
		var status int
		parsed(r, item, fmt.Sprintf("%s[%d]", where, i), &status, retriedStatus)
		out = append(out, status)
	}
	return out
}

func retriedStatus(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 400 || n > 599 {
		return 0, errors.New("not an HTTP status from 400 to 599, such as 503")
	}
	return n, nil
}

// networks reads a list of networks.
func (r *reader) networks(n ast.Node, where string) []netip.Prefix {
	var out []netip.Prefix
	for i, item := range r.list(n, where) {
		before, p := len(r.problems), netip.Prefix{}
		parsed(r, item, fmt.Sprintf("%s[%d]", where, i), &p, prefix)
		if len(r.problems) == before {
			out = append(out, p)
		}
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

func method(s string) (string, error) {
	switch s {
	case "POST", "PUT", "PATCH":
		return s, nil
	}
	return "", errors.New("unknown; known are POST, PUT, PATCH")
}

// headers reads extra headers; a value may be a reference.
func (r *reader) headers(n ast.Node, where string) map[string]string {
	out := map[string]string{}
	for _, f := range r.fields(n, where) {
		if _, err := headerName(f.name); err != nil {
			r.at(f.key, "%s: %q: %v", where, visible(f.name), err)
			continue
		}
		var value string
		r.reference(f, where, &value, headerValue)
		out[f.name] = value
	}
	return out
}

// headerNames reads a list of headers' names.
func (r *reader) headerNames(n ast.Node, where string) []string {
	var out []string
	for i, item := range r.list(n, where) {
		before, name := len(r.problems), ""
		parsed(r, item, fmt.Sprintf("%s[%d]", where, i), &name, headerName)
		if len(r.problems) == before {
			out = append(out, http.CanonicalHeaderKey(name))
		}
	}
	return out
}

// checkPassed refuses to pass on what proves a source's requests: it is not even
// kept.
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
				r.line(route.Target.line, "targets.%s.pass_headers: %s is a credential of %s, which route %s of source %s would pass on",
					route.Target.Name, name, s.Provider.Name(), route.Name, s.Name)
			}
		}
	}
}

func (r *reader) retry(into *Retry, n ast.Node, where string) {
	r.object(n, where, map[string]func(field){
		"attempts": r.count(&into.Attempts, where, 1),
		"base":     r.duration(&into.Base, where),
		"max":      r.duration(&into.Max, where),
		"deadline": r.duration(&into.Deadline, where),
	})
	if into.Base > 0 && into.Max > 0 && into.Max < into.Base {
		r.at(n, "%s: max %s is shorter than base %s", where, FormatDuration(into.Max), FormatDuration(into.Base))
	}
}

func kinds(dev bool) string {
	if dev {
		return "dev, forward, mail, noop, sql"
	}
	return "forward, mail, noop, sql"
}

func kind(s string, dev bool) (Kind, error) {
	switch k := Kind(s); {
	case k == KindForward, k == KindMail, k == KindSQL, k == KindNoop, k == KindDev && dev:
		return k, nil
	case k == KindDev:
		return "", fmt.Errorf("only `oncegate dev` has it; known are %s", kinds(dev))
	case s == "handler":
		return "", fmt.Errorf("is Go code in your own service; known here are %s", kinds(dev))
	}
	return "", fmt.Errorf("unknown kind; known are %s", kinds(dev))
}
