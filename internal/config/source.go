package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
)

func (r *reader) sources(n *yamltree.Node) {
	for _, member := range n.Members() {
		if r.named(member) {
			r.addSource(member)
		}
	}
}

func (r *reader) addSource(n *yamltree.Node) *Source {
	s := r.source(n)
	r.cfg.Sources, r.sourceNames[s.Name] = append(r.cfg.Sources, s), true
	return s
}

// checkSourceNames checks the names that the sources had before. Call it when all sources are read.
func (r *reader) checkSourceNames() {
	claims := make([]nameClaim, len(r.cfg.Sources))
	for i, s := range r.cfg.Sources {
		claims[i] = nameClaim{where: "sources." + s.Name, previous: s.Previous}
	}
	r.checkPrevious(claims)
}

// keys declares the keys of a source.
func (s *Source) keys() []Key {
	provider := ""
	if s.Provider != nil {
		provider = s.Provider.Name()
	}
	return s.keysWith(&provider)
}

// keysWith is keys with a place for the name of the provider.
func (s *Source) keysWith(provider *string) []Key {
	credentials := func(c *Credential) string { return c.Name }
	operations := func(o *DeclaredOperation) string { return o.Name }
	return []Key{
		value("provider", provider, words(verbatim), "required", "The sender's protocol: a name from the [catalogue](../../providers/README.md), a provider of your own, `operation`, or `message` for a source with `from`."),
		secrets("secrets", &s.Secrets, "required", "[Secrets](#secrets), newest first. All of them are tried. Providers that prove nothing, the provider `message` and sources with `emit: true` need none.").hidden(len(s.Credentials) > 0).shown().
			by(func(r *reader, n *yamltree.Node) { s.Secrets = r.secrets(n, r.moveToCredentials(s.node)) }),
		named("credentials", "credential", &s.Credentials, credentials, (*Credential).keys, "none", "Instead of `secrets`, for the provider `operation`: who may call, by name. See [Credentials](#credentials).").
			by(func(r *reader, n *yamltree.Node) { s.Credentials = r.credentials(n) }),
		{
			Name: "routes", Default: "none", Text: "What happens with the events: a list of [routes](#routes). Without routes an event is only recorded.", always: true, schema: oneOrMore(defined("route")),
			read: func(r *reader, n *yamltree.Node) { s.Routes = r.routes(n) },
			show: func() (any, bool) { return each(s.Routes, (*Route).printed), true },
		},
		{
			Name: "settings", Default: "none", Text: "What the provider asks for besides secrets. `oncegate providers show` lists it.", schema: mappingOf(oneOrMore(scalar)),
			read: func(r *reader, n *yamltree.Node) { s.Settings = r.settings(n) },
			show: func() (any, bool) {
				return byKey(s.Settings, func(v Setting) any { return v.Written }), len(s.Settings) > 0
			},
		},
		value("class", &s.Class, words(verbatim), "`default`", "The [retention class](#retention-classes).").starts().by(func(r *reader, n *yamltree.Node) { r.class(s, n) }),
		value("database", &s.Database, words(checkedName), "as the tenant's", "The [database](../guides/several-databases.md) in which the source lives: `default`, or one of `databases`. It cannot change."),
		tenantKey(&s.Tenant, "none", "Who the events of the source belong to: recorded with each event, a label of the metrics of deliveries and a filter of lists. A credential's own tenant is stronger."),
		reference("external_url", &s.ExternalURL, httpURL, "the request's", "The address that the sender uses, for providers that sign it."),
		value("max_body", &s.MaxBody, size, "the provider's", "The largest body."),
		value("deliveries", &s.Deliveries, perTime, "no limit", "How many verified deliveries the source takes in each process, such as `100/s`. One beyond it is answered with 429 and Retry-After and not recorded. A tenant has such a limit too: see [Tenants](#tenants)."),
		value("rearm", &s.Rearm, orOff(integer(1), errors.New("neither a whole number from 1 nor off")), "`3`", "How often a redelivery may give dead effects new attempts. `off` is allowed."),
		previousKey(&s.Previous, "none", "Names that the source had before: it keeps their events, keys and effects. `[]` says that the source is none of those that were there before. See [Renaming](../guides/renaming.md)."),
		value("answer_duplicates", &s.AnswerOutcome, choice("acknowledge", "outcome"), "`acknowledge`", "`outcome` answers a duplicate with the states of its effects: `{\"event\",\"status\",\"effects\":[{\"route\",\"state\",\"result\"}]}`."),
		value("on_conflict", new(string), mustBe("flag"), "`flag`", "A different payload under a known key is recorded and shown."),
		value("suspected_replay", new(string), mustBe("flag"), "`flag`", "Known bytes under a new event id are recorded and shown."),
		list("redact", &s.Redact, words(memberPath), "none", "Members of a body that replay plans hide, and that the answer to a differing second call hides from its caller: names, or dotted paths in which `*` matches one step."),
		programs("labels", &s.Labels, (*reader).labels, "none", "The labels by which you can search events: up to 8 names, each with an [expression](#expressions) that returns a text, a number, true or false, such as `order: body.order_id`. See [Labels](../guides/labels.md)."),
		value("enabled", &s.Disabled, inverse(boolean), "`true`", "`false` disables the source: it answers as if there were none. The effects of recorded events continue."),
		value("shadow", &s.Shadow, boolean, "`false`", "Records events and evaluates their effects, and carries none of them out. See [Switching over](../guides/switching-over.md)."),
		part("from", "from", &s.From, (*reader).from, (*From).keys, "none", "The broker from which the source consumes messages: see [From a broker](#from-a-broker). Its provider defaults to `message`."),
		value("emit", &s.Emit, boolean, "`false`", "Opens the source to the SQL function `emit`. See [Events from SQL](../guides/emit.md)."),
		part("reconcile", "reconcile", &s.Reconcile, nil, (*Reconcile).keys, "off", "How to ask the sender's API which events there were, and admit those that never arrived. See [Reconcile](../guides/reconcile.md).").later(),
		inside("operation", "operation", s.Operation.keys, "none", "Only for the provider `operation`: see [Operations](#operations).").later(), // it changes the provider
		named("operations", "declared", &s.Operations, operations, (*DeclaredOperation).printedKeys, "any operation", "Only for the provider `operation`: [which operations there are](#declared-operations), by name. Any other is refused."),
		inside("sessions", "sessions", s.Sessions.keys, "none are offered", "Only for the provider `operation`: see [Sessions](#sessions).").later(),
	}
}

func (r *reader) source(n *yamltree.Node) *Source {
	s := &Source{Name: n.Name(), node: n}
	provider := defaultProvider(n)
	start(s.keysWith(&provider))
	r.fields(n, s.keysWith(&provider))
	if n.IsMapping() || n.IsEmpty() {
		s.Provider = r.sourceProvider(n, provider)
	}
	r.checkCredentials(s)
	if s.Provider != nil {
		r.sourceSecrets(s)
	}
	r.checkFrom(s)
	r.reconcile(s, n.Member("reconcile"))
	r.operation(s, n.Member("operation"))
	r.sessions(s, n.Member("sessions"))
	r.declaredOperations(s, n.Member("operations"))
	if s.AnswerOutcome && s.Provider != nil && s.Provider.Answer(providers.Accepted, "", "").ContentType != "application/json" {
		n.Member("answer_duplicates").Fail("%s requires a special answer", s.Provider.Name())
	}
	r.checkKeys(s)
	r.checkOperations(s)
	r.checkCredentialOperations(s)
	r.checkPassed(s)
	r.checkPublished(s)
	r.checkOrders(s)
	return s
}

// sourceProvider returns the provider of a source by its name. It returns nil if there is no usable
// provider, which is reported at the source or at the provider's definition.
func (r *reader) sourceProvider(n *yamltree.Node, name string) *providers.Provider {
	named := n.Member("provider")
	if !named.Sound() || r.unusable["providers."+name] {
		return nil
	}
	if p := r.Provider(name); p != nil {
		return p
	}
	at := n.Below("provider")
	if named != nil {
		at = named
	}
	at.Fail("unknown provider %s; %s", r.report.Quote(name), r.known(name))
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
func (r *reader) class(s *Source, n *yamltree.Node) {
	cfg := r.cfg
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
