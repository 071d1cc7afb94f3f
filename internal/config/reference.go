package config

import (
	"maps"
	"slices"
	"strings"
)

// Section documents one mapping of the configuration file.
type Section struct {
	// Name identifies the section in tests.
	Name string
	// Title is the heading in the documentation.
	Title string
	// Text introduces the keys, in Markdown.
	Text string
	// Prefix is written before each key. It includes the trailing dot.
	Prefix string
	Keys   []Key
}

// Key documents one key. All texts are Markdown.
type Key struct {
	Name string
	// Default is the value if the key is absent; "required" and "none" are special.
	Default string
	Text    string
}

// Variable is an environment variable and the setting that it overrides.
type Variable struct{ Name, Sets string }

// Variables returns the environment variables that Oncegate reads, sorted by name.
func Variables() []Variable {
	out := make([]Variable, 0, len(variables))
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		out = append(out, Variable{name, variables[name]})
	}
	return out
}

// VariablesOf returns the environment variables that set the key with the given path, such as
// database.url, in order of decreasing precedence.
func VariablesOf(path string) []string {
	var out []string
	for _, v := range Variables() {
		if sets, _, _ := strings.Cut(v.Sets, ", "); sets == path {
			out = append(out, v.Name)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { // ONCEGATE_X takes precedence over a common name
		return strings.Compare(b[:min(len(b), 9)], a[:min(len(a), 9)])
	})
	return out
}

// Sections documents every key of the configuration file. A test compares it with the keys that the
// reader accepts.
func Sections() []Section {
	return slices.Concat(processReference(), consoleReference(), targetReference(), sourceReference())
}

func processReference() []Section {
	return []Section{
		{Name: "configuration", Title: "Top level", Text: "The file is one YAML mapping with these keys. All of them are optional except `database.url`.", Keys: []Key{
			{"database", "", "Where the tables are."},
			{"seal", "", "The keyring that bodies are encrypted with."},
			{"suppressions", "", "How suppressed addresses are kept."},
			{"listen", "", "The two listeners and the limits of their connections."},
			{"console", "", "How people reach the console and log in to it."},
			{"log", "", "How the process writes its log."},
			{"gate", "", "How many deliveries may wait for a commit."},
			{"bodies", "", "How much memory the bodies of deliveries may take."},
			{"work", "", "How many effects run at once."},
			{"drain", "`25s`", "How long a stop may take before it is forced."},
			{"classes", "`default`, `payments`, `ephemeral`", "Retention classes, by name. See [Retention](../guides/retention.md)."},
			{"providers", "none", "Providers of your own, by name, in the form of a file of the [catalogue](../../providers/catalog). See [A sender that is not in the catalogue](../guides/first-source.md#a-sender-that-is-not-in-the-catalogue)."},
			{"tenants", "none", "Who events and calls belong to, by name, with their quotas. See [Tenants](#tenants)."},
			{"targets", "none", "Where effects happen, by name."},
			{"sources", "none", "The endpoints that take deliveries, by name. At least one is required to serve."},
		}},
		{Name: "database", Title: "Database", Prefix: "database.", Keys: []Key{
			{"url", "required", "The connection string of PostgreSQL 15 or newer, direct or through a [pooler in session mode](../guides/poolers.md). `env:NAME` and `file:/path` are accepted."},
			{"list_url", "as `url`", "The connection string by which the console, the API and the commands read their lists. It must lead to the same database; its role needs [no more than SELECT](../guides/production.md#a-database-role-for-lists). `env:NAME` and `file:/path` are accepted."},
			{"schema", "`oncegate`", "The schema that holds all tables, including River's."},
			{"durability", "`local`", "What a 2xx waits for: a commit on the primary's disk. No other value is built yet."},
			{"gate_connections", "`6`", "The size of the pool that records deliveries; at least 4."},
			{"work_connections", "`16`", "The size of the worker's pool; at least 2."},
			{"queue_connections", "`8`", "The size of River's pool; at least 8."},
		}},
		{Name: "seal", Title: "Sealing", Prefix: "seal.", Keys: []Key{
			{"keyring", "none", "`file:PATH` or `env:NAME`: the keys that bodies and results are [sealed](../guides/sealing.md) with. `ONCEGATE_KEYRING` may also hold the keys themselves."},
		}},
		{Name: "suppressions", Title: "Suppressed addresses", Prefix: "suppressions.", Text: "See [Suppressed addresses](../guides/mail.md#suppressed-addresses).", Keys: []Key{
			{"hash_only", "`false`", "`true` keeps a hash of each address that is suppressed from now on, and not the address: lists cannot name it."},
		}},
		{Name: "listen", Title: "Listeners", Prefix: "listen.", Keys: []Key{
			{"public", "`:8080`", "The address that takes deliveries. `PORT` sets only the port."},
			{"admin", "`127.0.0.1:8081`", "The address of `/healthz`, `/readyz`, `/metrics`, the API and the console. The first three ask for no [token](../guides/access.md), so never expose it."},
			{"trusted_proxies", "none", "Networks whose `X-Forwarded-For` is believed and whose connections are not limited per peer."},
			{"connections", "what the limit of open files leaves, 4096 at most", "How many connections the public listener holds open. `serve` warns and takes fewer if the limit of open files (`ulimit -n`, systemd's `LimitNOFILE=`) is too low for them."},
			{"connections_per_peer", "a quarter of `connections`", "How many of them one peer may hold. A peer is an IPv4 address or an IPv6 /64 network that is no trusted proxy."},
			{"header_timeout", "`5s`", "How long a sender may take to send the headers of a request."},
			{"idle_timeout", "`75s`", "How long a connection may wait for its next request."},
		}},
		{Name: "log", Title: "Log", Prefix: "log.", Keys: []Key{
			{"level", "`info`", "`debug`, `info`, `warn` or `error`."},
			{"format", "`json`", "`json` or `text`."},
			{"events", "`sampled`", "Which lines about deliveries and effects are written: `all`, `sampled` or `errors`. See [The log](../guides/production.md#the-log)."},
		}},
		{Name: "gate", Title: "Gate", Prefix: "gate.", Keys: []Key{
			{"queue_events", "`8192`", "How many events may wait for a commit before a delivery is answered with 503."},
			{"queue_bytes", "`64MiB`", "How many bytes of bodies may wait for a commit before a delivery is answered with 503."},
			{"deadline", "`8s`", "How long a delivery may wait for its commit after its body was read. Then it is answered with 503."},
		}},
		{Name: "bodies", Title: "Bodies", Prefix: "bodies.", Text: "See [Hostile senders](../guides/hostile-senders.md). `off` turns a reserve or the least rate off.", Keys: []Key{
			{"memory", "`64MiB`", "Memory for the bodies of deliveries in flight. Bytes are charged as they arrive."},
			{"timeout", "`10s`", "How long a sender may take to send a body."},
			{"least_rate", "`1KiB/s`", "A body that arrives more slowly than this is answered with 408. The rate is the average since the end of the headers. `off` is allowed."},
			{"grace", "`5s`", "How long a body arrives before `least_rate` applies; shorter than `timeout`."},
			{"small", "`64KiB`", "The largest body that may use `small_reserve`."},
			{"small_reserve", "an eighth of `memory`", "Memory that only small bodies may use. `off` is allowed."},
			{"source_reserve", "an eighth of `memory`, divided by the number of sources", "Memory for each source that other sources never use. `off` is allowed."},
			{"peer_memory", "half of `memory`", "How much memory the bodies of one peer may hold while they arrive, unless it is a single body."},
		}},
		{Name: "work", Title: "Work", Prefix: "work.", Keys: []Key{
			{"workers", "`500`", "How many effects this process carries out at once."},
			{"lease", "`60s`", "How long a claim holds. It must be longer than the longest attempt."},
			{"sweep_every", "`10s`", "How often the sweeper looks for effects without a wake-up."},
		}},
		{Name: "classes", Title: "Retention classes", Prefix: "classes.<name>.", Text: "The built-in classes are listed in [Retention](../guides/retention.md).", Keys: []Key{
			{"body", "the built-in class's", "How long bodies and headers are kept."},
			{"effects", "the built-in class's", "How long settled effects and their attempts are kept."},
			{"tombstone", "three times the provider's longest window, at least 30 days", "How long an event's key recognises duplicates. A value below the provider's longest window is refused."},
			{"refusals", "the built-in class's", "How long refused deliveries are kept."},
			{"audit", "the built-in class's", "How long the audit is kept."},
		}},
		{Name: "secret", Title: "Secrets", Text: "A secret is a reference, never a value: `env:NAME`, `file:/path`, or a mapping with these keys. Every environment variable has a twin `NAME_FILE` that names a file with its value.", Keys: []Key{
			{"env", "none", "The environment variable that holds the secret. Either `env` or `file` is required."},
			{"file", "none", "The file that holds the secret."},
			{"until", "none", "The date (`2026-12-31`) after which the secret is no longer accepted, for a rotation."},
			{"name", "the reference", "The name under which the secret appears in metrics and in the audit. In `secrets` of a source of operations it is the name of the credential; secrets under `credentials` have none."},
		}},
	}
}
