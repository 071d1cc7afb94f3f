package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
)

func (r *reader) sources(cfg *Config, n *yamltree.Node) {
	for _, member := range n.Members() {
		if r.named(member) {
			cfg.Sources = append(cfg.Sources, r.source(cfg, member))
		}
	}
	claims := make([]nameClaim, len(cfg.Sources))
	for i, s := range cfg.Sources {
		claims[i] = nameClaim{where: "sources." + s.Name, previous: s.Previous}
	}
	r.checkPrevious(claims)
}

func (r *reader) source(cfg *Config, n *yamltree.Node) *Source {
	s := &Source{Name: n.Name(), Class: "default", node: n}
	provider := s.Name
	n.Fields(map[string]func(*yamltree.Node){
		"provider":          yamltree.Text(&provider),
		"secrets":           func(m *yamltree.Node) { s.Secrets = r.secrets(m, moveToCredentials(cfg, n)) },
		"credentials":       func(n *yamltree.Node) { s.Credentials = r.credentials(cfg, n) },
		"settings":          func(n *yamltree.Node) { s.Settings = r.settings(n) },
		"class":             func(n *yamltree.Node) { r.class(cfg, s, n) },
		"previous_names":    func(n *yamltree.Node) { s.Previous = r.previousNames(n) },
		"tenant":            yamltree.Value(&s.Tenant, cfg.tenantName),
		"external_url":      r.reference(&s.ExternalURL, httpURL),
		"max_body":          yamltree.Size(&s.MaxBody),
		"rearm":             yamltree.Value(&s.Rearm, rearm),
		"on_conflict":       yamltree.Value(new(string), mustBe("flag")),
		"suspected_replay":  yamltree.Value(new(string), mustBe("flag")),
		"answer_duplicates": yamltree.Value(&s.AnswerOutcome, answerDuplicates),
		"redact":            yamltree.List(&s.Redact, memberPath),
		"labels":            func(n *yamltree.Node) { s.Labels = r.labels(n) },
		"emit":              yamltree.Bool(&s.Emit),
		"operation":         func(*yamltree.Node) {}, // read after the provider, which it changes
		"sessions":          func(*yamltree.Node) {}, // read after the provider too
		"operations":        func(*yamltree.Node) {},
		"routes":            func(n *yamltree.Node) { s.Routes = r.routes(cfg, n) },
	})
	if n.IsMapping() || n.IsEmpty() {
		s.Provider = r.sourceProvider(cfg, n, provider)
	}
	r.checkCredentials(s)
	if s.Provider != nil {
		r.sourceSecrets(s)
	}
	r.operation(s, n.Member("operation"))
	r.sessions(s, n.Member("sessions"))
	r.declaredOperations(s, n.Member("operations"))
	if s.AnswerOutcome && s.Provider != nil && s.Provider.Answer(providers.Accepted, "", "").ContentType != "application/json" {
		n.Member("answer_duplicates").Fail("%s asks for an answer of its own", s.Provider.Name())
	}
	r.checkKeys(s)
	r.checkOperations(s)
	r.checkCredentialOperations(s)
	r.checkPassed(s)
	r.checkOrders(s)
	return s
}

// sourceProvider returns the provider of a source by its name. It returns nil if there is no usable
// provider, which is reported at the source or at the provider's definition.
func (r *reader) sourceProvider(cfg *Config, n *yamltree.Node, name string) *providers.Provider {
	named := n.Member("provider")
	if !named.Sound() || r.unusable["providers."+name] {
		return nil
	}
	if p := cfg.Providers[name]; p != nil {
		return p
	}
	at := n.Below("provider")
	if named != nil {
		at = named
	}
	at.Fail("unknown provider %s; %s", r.report.Quote(name), known(cfg.Providers, name))
	return nil
}

// sourceSecrets checks the settings and secrets of a source against what its provider needs.
func (r *reader) sourceSecrets(s *Source) {
	if s.node.Member("settings").Sound() {
		r.checkSettings(s)
	}
	check := s.Provider
	if bound, err := s.Provider.Bind(providers.Binding{Settings: s.Values()}); err == nil {
		check = bound // the settings may determine which secrets it needs
	}
	secrets := s.node.Member("secrets")
	if credentials := s.node.Member("credentials"); credentials != nil {
		secrets = credentials
	}
	switch {
	case !secrets.Sound():
	case len(s.AllSecrets()) > 0:
		failLines(secrets, check.CheckSecrets(s.Keys()))
	case s.Emit || !s.node.Member("emit").Sound() || !needsSecret(check):
		// The source accepts events only through emit, so no delivery over HTTP must be verified;
		// or it needs no secrets.
	case secrets == nil && !s.node.Lacks("secrets"):
	case secrets == nil && s.Provider.IsOperation():
		s.node.FailKey("credentials are missing: who may call, such as credentials: { %s: { secrets: [env:%s_SECRET] } }", s.Name, variableOf(s.Name))
	case secrets == nil:
		s.node.FailKey("secrets are missing: a list of references, such as [env:%s_SECRET]", variableOf(s.Name))
	default:
		secrets.Fail("the list is empty")
	}
}

// variableOf suggests an environment variable for a name.
func variableOf(name string) string {
	return strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// class reads the retention class of a source.
func (r *reader) class(cfg *Config, s *Source, n *yamltree.Node) {
	if r.unusable["classes."+n.Value()] {
		return
	}
	names := make([]string, len(cfg.Classes))
	for i, c := range cfg.Classes {
		names[i] = c.Name
	}
	yamltree.Read(n, &s.Class, func(name string) (string, error) {
		if !slices.Contains(names, name) {
			return "", fmt.Errorf("unknown class; %sknown are %s", yamltree.DidYouMean(names, name), sortedList(names))
		}
		return name, nil
	})
}

func rearm(text string) (int, error) {
	if text == "off" {
		return -1, nil
	}
	n, err := yamltree.ParseInteger(text, 1)
	if err != nil {
		err = errors.New("neither a whole number from 1 nor off")
	}
	return n, err
}
