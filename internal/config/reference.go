package config

import (
	"slices"
	"strings"
)

// Section documents one mapping of the configuration file.
type Section struct {
	// Name identifies the section in tests and in the JSON Schema.
	Name string
	// Title is the heading in the documentation.
	Title string
	// Text introduces the keys, in Markdown.
	Text string
	// Prefix is written before each key. It includes the trailing dot.
	Prefix string
	Keys   []Key
	// Like is the name of a section whose keys this one has as well. Its documentation need not repeat them.
	Like string
}

// Variable is an environment variable and the setting that it overrides.
type Variable struct{ Name, Sets string }

// Variables returns the environment variables that Oncegate reads, sorted by name.
func Variables() []Variable {
	out := slices.Concat(overriding("", new(Config).keys()), otherVariables)
	slices.SortFunc(out, func(a, b Variable) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// overriding returns the variables that override the keys below prefix.
func overriding(prefix string, keys []Key) []Variable {
	var out []Variable
	for _, k := range keys {
		for _, v := range k.variables {
			out = append(out, Variable{v.name, strings.TrimSuffix(prefix+k.Name+", "+v.note, ", ")})
		}
		if k.keys != nil {
			out = append(out, overriding(prefix+k.Name+".", k.keys())...)
		}
	}
	return out
}

// VariablesOf returns the environment variables that set the key with the given path, such as
// database.url, in order of decreasing precedence.
func VariablesOf(path string) []string {
	var out []string
	for _, v := range overriding("", new(Config).keys()) {
		if sets, _, _ := strings.Cut(v.Sets, ", "); sets == path {
			out = append(out, v.Name)
		}
	}
	return out
}

// Own returns the keys of a section except the keys of the section that Like names.
func (s *Section) Own(all []Section) []Key {
	out := slices.Clone(s.Keys)
	for _, other := range all {
		if other.Name == s.Like {
			out = slices.DeleteFunc(out, func(k Key) bool {
				return slices.ContainsFunc(other.Keys, func(o Key) bool { return o.Name == k.Name && o.Default == k.Default && o.Text == k.Text })
			})
		}
	}
	return out
}

// Sections returns the mappings of the configuration file with the declarations of their keys.
func Sections() []Section {
	c, s := new(Config), new(Source)
	const every = "target noop" // the keys of a noop are those of every kind
	target := func(kind Kind) []Key { return (&Target{Kind: kind}).keys() }
	return []Section{
		{Name: "configuration", Title: "Top level", Text: "The file is one YAML mapping with these keys. All of them are optional except `database.url`.", Keys: c.keys()},
		{Name: "database", Title: "Database", Prefix: "database.", Keys: c.Database.keys()},
		{Name: "seal", Title: "Sealing", Prefix: "seal.", Keys: c.Seal.keys()},
		{Name: "archive", Title: "The archive", Prefix: "archive.", Text: "See [The archive](../guides/archive.md).", Keys: c.Archive.keys()},
		{Name: "suppressions", Title: "Suppressed addresses", Prefix: "suppressions.", Text: "See [Suppressed addresses](../guides/suppressions.md).", Keys: c.Suppressions.keys()},
		{Name: "listen", Title: "Listeners", Prefix: "listen.", Keys: c.Listen.keys()},
		{Name: "log", Title: "Log", Prefix: "log.", Keys: c.Log.keys()},
		{Name: "metrics", Title: "Metrics", Prefix: "metrics.", Keys: c.Metrics.keys()},
		{Name: "gate", Title: "Gate", Prefix: "gate.", Keys: c.Gate.keys()},
		{Name: "buffer", Title: "Buffer", Prefix: "buffer.", Text: "A stream of NATS JetStream that keeps verified deliveries while the database is away, so that they are acknowledged all the same. See [The buffer](../guides/buffer.md).", Keys: c.Buffer.keys()},
		{Name: "bodies", Title: "Bodies", Prefix: "bodies.", Text: "See [Hostile senders](../guides/hostile-senders.md). `off` turns a reserve or the least rate off.", Keys: bodiesKeys(&c.Bodies)},
		{Name: "work", Title: "Work", Prefix: "work.", Keys: c.Work.keys()},
		{Name: "notifications", Title: "Notifications", Prefix: "notifications.", Text: "See [Notifications](../guides/notifications.md).", Keys: c.Notifications.keys()},
		{Name: "classes", Title: "Retention classes", Prefix: "classes.<name>.", Text: "The built-in classes are listed in [Retention](../guides/retention.md).", Keys: new(Class).keys()},
		{Name: "secret", Title: "Secrets", Text: "A secret is a reference, never a value: `env:NAME`, `file:/path`, or a mapping with these keys. Every environment variable has a twin `NAME_FILE` that names a file with its value.", Keys: new(Reference).keys(new(string))},
		{Name: "console", Title: "Console", Prefix: "console.", Text: "How people reach the console and log in to it. See [The console](../guides/console.md) and [Who may do what](../guides/access.md).", Keys: c.Console.keys()},
		{Name: "oidc", Title: "OpenID Connect", Prefix: "console.oidc.", Text: "See [Log in with OpenID Connect](../guides/access.md#log-in-with-openid-connect).", Keys: new(OIDC).keys()},
		{Name: "role", Title: "Roles", Prefix: "console.oidc.roles.<value>.", Keys: new(Role).keys()},
		{Name: every, Title: "Targets of every kind", Prefix: "targets.<name>.", Text: "Every target has these keys. The sections of the kinds list the keys that only targets of the kind have. Limits hold for each process.", Keys: target(KindNoop)},
		{Name: "retry", Title: "Retry", Prefix: "retry.", Text: "`retry` may be set at a target or at a route. A route's keys replace the keys of its target.", Keys: new(Retry).keys()},
		{Name: "breaker", Title: "Breaker", Prefix: "breaker.", Keys: new(Breaker).keys()},
		{Name: "target forward", Title: "Targets over HTTP (`forward`)", Prefix: "targets.<name>.", Text: "A forward sends each event as one HTTP request. See [A target over HTTP](../guides/http-target.md).", Keys: target(KindForward), Like: every},
		{Name: "probe", Title: "Probe", Prefix: "probe.", Text: "A probe asks a target over HTTP whether an effect happened. See [Unknown outcomes](../guides/unknown-outcomes.md).", Keys: new(Probe).keys()},
		{Name: "dry_run", Title: "Dry run", Prefix: "dry_run.", Text: "A dry run asks a target over HTTP what it would do, by a parameter, header or endpoint that the target offers for it. Only `oncegate replay plan --compare --results` sends it. The request consists of these keys, and uses only `sign`, `allow`, `timeout`, `concurrency`, `rate` and `breaker` of the target. It carries `Oncegate-Dry-Run` and no idempotency key. See [Audit a run](../guides/audit-a-run.md#ask-the-target-what-it-would-do).", Keys: new(DryRun).keys()},
		{Name: "target sql", Title: "Targets in SQL (`sql`)", Prefix: "targets.<name>.", Text: "Either `call` or `statement` is required. Both run in the transaction that records the outcome. See [A target in SQL](../guides/sql-target.md).", Keys: target(KindSQL), Like: every},
		{Name: "target publish", Title: "Message brokers (`publish`)", Prefix: "targets.<name>.", Text: "Publishes each event as one message to Kafka, NATS JetStream or RabbitMQ, and waits until the broker has stored it. See [A target at a message broker](../guides/broker-target.md).", Keys: target(KindPublish), Like: every},
		{Name: "target mail", Title: "Mail (`mail`)", Prefix: "targets.<name>.", Text: "See [Mail](../guides/mail.md).", Keys: target(KindMail), Like: every},
		{Name: "dkim", Title: "DKIM", Prefix: "dkim.", Text: "All keys are required.", Keys: new(DKIM).keys()},
		{Name: "target suppress", Title: "Suppressed addresses (`suppress`)", Prefix: "targets.<name>.", Text: "Suppresses the addresses that an event names, in the transaction that records the outcome. See [Suppressed addresses](../guides/suppressions.md).", Keys: target(KindSuppress), Like: every},
		{Name: "source", Title: "Sources", Prefix: "sources.<name>.", Text: "A source is served at `/in/<name>`. The keys `on_conflict` and `suspected_replay` have one value each so far.", Keys: s.keys()},
		{Name: "from", Title: "From a broker", Prefix: "sources.<name>.from.", Text: "The source consumes messages from Kafka, NATS JetStream or RabbitMQ, and acknowledges them after they are recorded. It is not served over HTTP unless it also has secrets. See [Events from a broker](../guides/from-a-broker.md).", Keys: new(From).keys()},
		{Name: "reconcile", Title: "Reconcile", Prefix: "sources.<name>.reconcile.", Text: "For providers whose sender lists its events; `oncegate providers show` says which. See [Reconcile](../guides/reconcile.md).", Keys: new(Reconcile).keys()},
		{Name: "sessions", Title: "Sessions", Prefix: "sources.<name>.sessions.", Text: "Lets engines open sessions for their agents. See [Sessions for agents](../guides/sessions.md).", Keys: s.Sessions.keys()},
		{Name: "credential", Title: "Credentials", Prefix: "sources.<name>.credentials.<name>.", Text: "Who may call a source of operations. The name is part of every key, and the secrets are not, so that replacing a secret makes no other keys. See [Credentials](../guides/credentials.md).", Keys: new(Credential).keys()},
		{Name: "tenant", Title: "Tenants", Prefix: "tenants.<name>.", Text: "Optional. If there is one, every `tenant` of a source or credential must be named here. See [Tenants](../guides/tenants.md).", Keys: new(Tenant).keys()},
		{Name: "operation", Title: "Operations", Prefix: "sources.<name>.operation.", Text: "See [Operations of your own services](../guides/operations.md).", Keys: s.Operation.keys()},
		{Name: "repeats", Title: "Suspected repeats", Prefix: "sources.<name>.operation.repeats.", Text: "See [Operations of your own services](../guides/repeats.md#suspected-repeats).", Keys: new(Repeats).keys()},
		{Name: "declared", Title: "Declared operations", Prefix: "sources.<name>.operations.<operation>.", Text: "Oncegate refuses an undeclared operation, and a call that does not fit its declaration. Neither spends a key. See [Declare operations](../guides/operations.md#declare-operations).", Keys: new(DeclaredOperation).keys()},
		{Name: "route", Title: "Routes", Prefix: "sources.<name>.routes[].", Keys: new(Route).keys()},
		{Name: "order", Title: "Order", Prefix: "order.", Text: "See [Order](../guides/order.md) for the modes.", Keys: new(Order).keys()},
		{Name: "fetch", Title: "Fetch", Prefix: "fetch.", Text: "For senders whose webhook only names what changed. Each attempt asks for it with a GET before it acts, until the request is fixed. See [Fetch before the effect](../guides/fetch.md).", Keys: new(Fetch).keys()},
		{Name: "key", Title: "Effect keys", Prefix: "key.", Text: "Of all effects of a route with one effect key, one happens and the others are its duplicates. The idempotency key that the target gets is made of the effect key, so two events with one meaning carry one key, also after the database was restored from a backup that lacks the first. With `within` it is made of the event instead, because equal keys mean different things once they are further apart. `key` is a list of fields or a mapping:", Keys: new(EffectKey).declared()},
		{Name: "mail", Title: "Messages", Prefix: "mail.", Text: "Either `template`, or `subject` with `text`, `html` or both. Templates see `.Body`, `.Event`, `.To` and, in a route with a [fetch](#fetch), `.Fetched`; any other field is refused at start.", Keys: new(Mail).keys()},
	}
}
