package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/oncegate/oncegate/providers"
)

func (r *reader) sources(cfg *Config, n ast.Node) {
	for _, f := range r.fields(n, "sources") {
		if r.named(f, "sources") {
			cfg.Sources = append(cfg.Sources, r.source(cfg, f))
		}
	}
	claims := make([]nameClaim, len(cfg.Sources))
	for i, s := range cfg.Sources {
		claims[i] = nameClaim{where: "sources." + s.Name, name: s.Name, previous: s.Previous}
	}
	r.checkPrevious(claims)
}

func (r *reader) source(cfg *Config, f field) *Source {
	where := "sources." + f.name
	s := &Source{Name: f.name, Class: "default", line: lineOf(f.key)}
	named := f.name
	var providerAt, secretsAt, operationAt, answerAt, settingsAt ast.Node = f.key, nil, nil, nil, f.key
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
		"settings": func(f field) {
			settingsAt = f.value
			s.Settings = r.settings(f.value, where+".settings")
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
		"previous_names": func(f field) { s.Previous = r.previousNames(f, where) },
		"tenant":         func(f field) { parsed(r, f.value, where+".tenant", &s.Tenant, checkedName) },
		"external_url":   func(f field) { r.reference(f, where, &s.ExternalURL, httpURL) },
		"max_body":       func(f field) { parsed(r, f.value, where+".max_body", &s.MaxBody, positiveSize) },
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
		"answer_duplicates": func(f field) {
			answerAt = f.value
			parsed(r, f.value, where+".answer_duplicates", &s.AnswerOutcome, answerDuplicates)
		},
		"redact": func(f field) {
			for i, item := range r.list(f.value, where+".redact") {
				var path string
				parsed(r, item, fmt.Sprintf("%s.redact[%d]", where, i), &path, memberPath)
				s.Redact = append(s.Redact, path)
			}
		},
		"emit":      r.boolean(&s.Emit, where),
		"operation": func(f field) { operationAt = f.value },
		"routes":    func(f field) { s.Routes = r.routes(cfg, f.value, where+".routes") },
	})
	s.Provider = cfg.Providers[named]
	if s.Provider != nil && len(r.problems) == before {
		r.checkSettings(s, s.Provider, settingsAt, where)
	}
	check := s.Provider
	if s.Provider != nil {
		if bound, err := s.Provider.Bind(providers.Binding{Settings: s.Values()}); err == nil {
			check = bound // what secrets it needs may depend on the settings
		}
	}
	switch {
	case s.Provider == nil && r.broken[named]:
		// What is wrong with the provider is said where it stands.
	case s.Provider == nil:
		r.at(providerAt, "%s: unknown provider %q; %s", where, visible(named), known(cfg.Providers, named))
	case len(s.Secrets) == 0 && s.Emit && len(r.problems) == before:
		// Open to emit alone: no delivery over HTTP can be verified.
	case secretsAt == nil && needsSecret(check):
		r.line(s.line, "%s: secrets are missing: a list of references, such as [env:%s_SECRET]", where, strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_")))
	case len(s.Secrets) == 0 && len(r.problems) == before && needsSecret(check):
		r.at(secretsAt, "%s.secrets: the list is empty", where)
	case len(r.problems) == before && len(s.Secrets) > 0:
		if err := check.CheckSecrets(s.Keys()); err != nil {
			for _, line := range lines(err) {
				r.at(secretsAt, "%s.secrets: %s", where, line)
			}
		}
	}
	r.operation(s, operationAt, where+".operation")
	if s.AnswerOutcome && s.Provider != nil && s.Provider.Answer(providers.Accepted, "", "").ContentType != "application/json" {
		r.at(answerAt, "%s.answer_duplicates: %s asks for an answer of its own", where, s.Provider.Name())
	}
	r.checkKeys(s)
	r.checkPassed(s)
	r.checkOrders(s)
	return s
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
