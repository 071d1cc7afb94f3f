package config

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/providers"
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
	keys["rate"] = func(f field) { r.at(f.key, "%s.rate: not built yet; use concurrency", where) }
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
		keys["key_header"] = func(f field) { parsed(r, f.value, where+".key_header", &t.KeyHeader, headerName) }
		keys["headers"] = func(f field) { t.Headers = r.headers(f.value, where+".headers") }
		keys["key_window"] = r.duration(&t.KeyWindow, where)
	case t.Kind == KindSQL:
		keys["call"] = func(f field) { parsed(r, f.value, where+".call", &t.Call, functionName) }
	case t.Kind == KindDev:
		t.Idempotent = true
	}
	before := len(r.problems)
	r.object(f.value, where, keys)
	if len(r.problems) == before {
		switch {
		case t.Kind == KindForward && t.URL == "":
			r.line(t.line, "%s: url is missing", where)
		case t.Kind == KindSQL && t.Call == "":
			r.line(t.line, "%s: call is missing: the function to call, such as ledger.apply_event", where)
		case t.KeyWindow > 0 && !t.Idempotent:
			r.line(t.line, "%s: key_window needs idempotent: true", where)
		case t.Kind == KindForward:
			r.forward(t, where)
		}
	}
	return t
}

// forward asks the kind itself whether it can do what is configured.
func (r *reader) forward(t *Target, where string) {
	keys := t.Keys()
	sign := make([]string, len(keys))
	for i, key := range keys {
		sign[i] = string(key.Value)
	}
	_, err := effect.NewForward(effect.ForwardConfig{URL: t.URL, Sign: sign, Idempotent: t.Idempotent, KeyHeader: t.KeyHeader, Headers: t.Headers})
	if err == nil {
		return
	}
	for _, line := range lines(err) {
		r.line(t.line, "%s: %s", where, line)
	}
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

func (r *reader) sources(cfg *Config, n ast.Node) {
	for _, f := range r.fields(n, "sources") {
		if r.named(f, "sources") {
			cfg.Sources = append(cfg.Sources, r.source(cfg, f))
		}
	}
}

func (r *reader) source(cfg *Config, f field) *Source {
	where := "sources." + f.name
	s := &Source{Name: f.name, Class: "default", line: lineOf(f.key)}
	named := f.name
	var providerAt, secretsAt ast.Node = f.key, nil
	before := len(r.problems)
	r.object(f.value, where, map[string]func(field){
		"provider": func(f field) {
			providerAt = f.value
			parsed(r, f.value, where+".provider", &named, verbatim)
		},
		"secrets": func(f field) {
			secretsAt = f.value
			s.Secrets = r.secrets(f.value, where+".secrets")
		},
		"class": func(f field) {
			parsed(r, f.value, where+".class", &s.Class, func(name string) (string, error) {
				names := make([]string, len(cfg.Classes))
				for i, c := range cfg.Classes {
					names[i] = c.Name
				}
				if !slices.Contains(names, name) {
					return "", fmt.Errorf("unknown class; known are %s", strings.Join(slices.Sorted(slices.Values(names)), ", "))
				}
				return name, nil
			})
		},
		"tenant":       func(f field) { parsed(r, f.value, where+".tenant", &s.Tenant, checkedName) },
		"external_url": func(f field) { r.reference(f, where, &s.ExternalURL, httpURL) },
		"max_body":     func(f field) { parsed(r, f.value, where+".max_body", &s.MaxBody, positiveSize) },
		"rearm": func(f field) {
			parsed(r, f.value, where+".rearm", &s.Rearm, func(text string) (int, error) {
				if text == "off" {
					return -1, nil
				}
				n, err := wholeNumber(text, 1)
				if err != nil {
					err = errors.New("neither a whole number from 1 nor off")
				}
				return n, err
			})
		},
		"on_conflict": func(f field) {
			parsed(r, f.value, where+".on_conflict", new(string), only("flag"))
		},
		"suspected_replay": func(f field) {
			parsed(r, f.value, where+".suspected_replay", new(string), only("flag"))
		},
		"routes": func(f field) { s.Routes = r.routes(cfg, f.value, where+".routes") },
	})
	s.Provider = cfg.Providers[named]
	switch {
	case s.Provider == nil:
		r.at(providerAt, "%s: unknown provider %q; known are %s", where, visible(named), known(cfg.Providers))
	case secretsAt == nil && needsSecret(s.Provider):
		r.line(s.line, "%s: secrets are missing: a list of references, such as [env:%s_SECRET]", where, strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_")))
	case len(s.Secrets) == 0 && len(r.problems) == before && needsSecret(s.Provider):
		r.at(secretsAt, "%s.secrets: the list is empty", where)
	case len(r.problems) == before && len(s.Secrets) > 0:
		if err := s.Provider.CheckSecrets(s.Keys()); err != nil {
			for _, line := range lines(err) {
				r.at(secretsAt, "%s.secrets: %s", where, line)
			}
		}
	}
	return s
}

func (r *reader) routes(cfg *Config, n ast.Node, where string) []*Route {
	var out []*Route
	seen := map[string]int{}
	for i, item := range r.list(n, where) {
		route := r.route(cfg, item, fmt.Sprintf("%s[%d]", where, i))
		if first, twice := seen[route.Name]; twice && route.Name != "" {
			r.at(item, "%s[%d]: duplicate name %q, first on line %d", where, i, route.Name, first)
		}
		seen[route.Name] = lineOf(item)
		out = append(out, route)
	}
	return out
}

func (r *reader) route(cfg *Config, n ast.Node, where string) *Route {
	route := &Route{Types: []string{"*"}}
	for _, node := range r.peek(n, "name") {
		parsed(r, node, where+".name", &route.Name, checkedName)
		if route.Name != "" {
			where = strings.TrimSuffix(where, where[strings.LastIndexByte(where, '['):]) + "." + route.Name
		}
	}
	var targetAt ast.Node
	var target string
	later := func(what string) func(field) {
		return func(f field) { r.at(f.key, "%s.%s: %s not built yet; remove it", where, f.name, what) }
	}
	r.object(n, where, map[string]func(field){
		"name":   func(field) {},
		"types":  func(f field) { route.Types = r.globs(f.value, where+".types") },
		"target": func(f field) { targetAt = f.value; parsed(r, f.value, where+".target", &target, verbatim) },
		"order": func(f field) {
			r.object(f.value, where+".order", map[string]func(field){
				"mode": func(f field) { parsed(r, f.value, where+".order.mode", new(string), orderMode) },
				"key":  func(field) {}, "number": func(field) {}, "patience": func(field) {},
				"on_gap": func(field) {}, "on_dead": func(field) {},
			})
		},
		"when":    later("conditions are"),
		"key":     later("effect keys by recipe are"),
		"mail":    later("mail is"),
		"retry":   func(f field) { r.retry(&route.Retry, f.value, where+".retry") },
		"timeout": r.duration(&route.Timeout, where),
	})
	if route.Name == "" && len(r.peek(n, "name")) == 0 {
		r.at(n, "%s: name is missing", where)
	}
	if targetAt == nil {
		r.at(n, "%s: target is missing", where)
		return route
	}
	names := make([]string, 0, len(cfg.Targets))
	for _, t := range cfg.Targets {
		names = append(names, t.Name)
		if t.Name == target {
			route.Target = t
		}
	}
	if route.Target == nil {
		if target != "" {
			r.at(targetAt, "%s: unknown target %q; known are %s", where, visible(target), listed(names))
		}
		return route
	}
	inherit(&route.Retry, route.Target.Retry)
	if route.Timeout == 0 {
		route.Timeout = route.Target.Timeout
	}
	return route
}

func inherit(into *Retry, from Retry) {
	if into.Attempts == 0 {
		into.Attempts = from.Attempts
	}
	if into.Base == 0 {
		into.Base = from.Base
	}
	if into.Max == 0 {
		into.Max = from.Max
	}
	if into.Deadline == 0 {
		into.Deadline = from.Deadline
	}
}

// globs reads the event types of a route.
func (r *reader) globs(n ast.Node, where string) []string {
	var out []string
	items := r.list(n, where)
	if len(items) == 0 {
		if _, isList := n.(*ast.SequenceNode); isList {
			r.at(n, "%s: the list is empty; leave it out to take every type", where)
		}
	}
	for i, item := range items {
		var pattern string
		parsed(r, item, fmt.Sprintf("%s[%d]", where, i), &pattern, glob)
		out = append(out, pattern)
	}
	return out
}

// peek gives the value of one key of a mapping, without reporting anything.
func (r *reader) peek(n ast.Node, key string) []ast.Node {
	mapping, ok := n.(ast.MapNode)
	if !ok {
		return nil
	}
	for it := mapping.MapRange(); it.Next(); {
		if scalar(it.Key()) == key {
			return []ast.Node{it.Value()}
		}
	}
	return nil
}

// reference reads a value that may be env:NAME or file:PATH instead.
func (r *reader) reference(f field, where string, into *string, parse func(string) (string, error)) {
	text, ok := r.text(f.value, where+"."+f.name)
	if !ok {
		return
	}
	if strings.HasPrefix(text, "env:") || strings.HasPrefix(text, "file:") {
		value, err := r.env.resolve(text)
		if err != nil {
			r.at(f.value, "%s.%s: %v", where, f.name, err)
			return
		}
		text = value
	}
	value, err := parse(text)
	if err != nil {
		r.at(f.value, "%s.%s: %v", where, f.name, err)
		return
	}
	*into = value
}

func kinds(dev bool) string {
	if dev {
		return "dev, forward, noop, sql"
	}
	return "forward, noop, sql"
}

func kind(s string, dev bool) (Kind, error) {
	switch k := Kind(s); {
	case k == KindForward, k == KindSQL, k == KindNoop, k == KindDev && dev:
		return k, nil
	case k == KindDev:
		return "", fmt.Errorf("only `oncegate dev` has it; known are %s", kinds(dev))
	case s == "handler":
		return "", fmt.Errorf("is Go code in your own service; known here are %s", kinds(dev))
	case s == "mail":
		return "", fmt.Errorf("not built yet; known are %s", kinds(dev))
	}
	return "", fmt.Errorf("unknown kind; known are %s", kinds(dev))
}

func orderMode(s string) (string, error) {
	switch s {
	case "none":
		return s, nil
	case "latest", "contiguous", "arrival":
		return "", errors.New("not built yet; known is none")
	}
	return "", errors.New("unknown order mode; known is none")
}

func only(word string) func(string) (string, error) {
	return func(s string) (string, error) {
		if s != word {
			return "", fmt.Errorf("not built; known is %s", word)
		}
		return s, nil
	}
}

var globForm = regexp.MustCompile(`^[^\[\]?\\\x00-\x20]+$`)

func glob(s string) (string, error) {
	if _, err := path.Match(s, ""); err != nil || !globForm.MatchString(s) || len(s) > 255 {
		return "", errors.New("not an event type: no spaces, and * is the only wildcard")
	}
	return s, nil
}

func httpURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", errors.New("not an address such as https://host/path")
	}
	if u.User != nil {
		return "", errors.New("must hold no user and password; sign the requests instead")
	}
	if u.Fragment != "" {
		return "", errors.New("must hold no #fragment")
	}
	return s, nil
}

var functionForm = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?$`)

func functionName(s string) (string, error) {
	if !functionForm.MatchString(s) {
		return "", errors.New("not a function's name such as ledger.apply_event")
	}
	return s, nil
}

var headerForm = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

func headerName(s string) (string, error) {
	if !headerForm.MatchString(s) {
		return "", errors.New("not a header's name")
	}
	return s, nil
}

func headerValue(s string) (string, error) {
	if strings.ContainsAny(s, "\r\n\x00") {
		return "", errors.New("must be one line")
	}
	return s, nil
}

func known(all map[string]*providers.Provider) string {
	return listed(slices.Collect(maps.Keys(all)))
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// lines takes a joined error apart: one problem a line.
func lines(err error) []string {
	var out []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}
