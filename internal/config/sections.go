package config

import (
	"errors"
	"log/slog"
	"strconv"
	"strings"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/fold"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// keys declares the sections of the file, in the order of the reference.
func (c *Config) keys() []Key {
	return []Key{
		inside("database", "database", c.Database.keys, "", "Where the tables are."),
		named("databases", "database", &c.Databases, func(d *Database) string { return d.Name }, (*Database).keys, "none", "Further databases, by name, in which sources live with their events, effects and workers. What one leaves out, but for `url` and `list_url`, is as in `database`. See [Several databases](../guides/several-databases.md).").by((*reader).databases),
		list("spread", &c.Spread, words(verbatim), "none", "The databases among which tenants are spread: the sources of a tenant live in the one that a digest of its name selects, unless the source or the tenant names another. `default` is the one of `database`."),
		inside("seal", "seal", c.Seal.keys, "", "The keyring that bodies are encrypted with."),
		inside("archive", "archive", c.Archive.keys, "", "Where bodies go before they are removed. See [The archive](../guides/archive.md)."),
		inside("suppressions", "suppressions", c.Suppressions.keys, "", "How suppressed addresses are kept."),
		inside("listen", "listen", c.Listen.keys, "", "The two listeners and the limits of their connections."),
		inside("console", "console", c.Console.keys, "", "How people reach the console and log in to it.").later(), // roles name tenants
		inside("log", "log", c.Log.keys, "", "How the process writes its log."),
		inside("metrics", "metrics", c.Metrics.keys, "", "How many series `/metrics` has."),
		inside("gate", "gate", c.Gate.keys, "", "How many deliveries may wait for a commit."),
		inside("buffer", "buffer", c.Buffer.keys, "off", "Where verified deliveries are kept while the database cannot record them. See [The buffer](../guides/buffer.md)."),
		inside("bodies", "bodies", func() []Key { return bodiesKeys(&c.Bodies) }, "", "How much memory the bodies of deliveries may take."),
		inside("work", "work", c.Work.keys, "", "How many effects run at once."),
		inside("notifications", "notifications", c.Notifications.keys, "", "What operators are told without asking. See [Notifications](../guides/notifications.md)."),
		value("drain", &c.Drain, duration, "`25s`", "How long a stop may take before it is forced.").from("ONCEGATE_DRAIN").starts(),
		value("drain_delay", &c.DrainDelay, duration, "none", "How long a process accepts deliveries after SIGTERM, while `/readyz` reports that it is not ready. Choose a time longer than your proxy needs to notice, such as `5s`: the proxy then sends no delivery to a closed port. `drain` begins after it.").from("ONCEGATE_DRAIN_DELAY"),
		named("classes", "classes", &c.Classes, func(c *Class) string { return c.Name }, (*Class).keys, "`default`, `payments`, `ephemeral`", "Retention classes, by name. See [Retention](../guides/retention.md).").by((*reader).classes),
		{
			Name: "providers", Default: "none", Text: "Providers of your own, by name, in the form of a file of the [catalogue](../../providers/catalog). See [A sender that is not in the catalogue](../guides/first-source.md#a-sender-that-is-not-in-the-catalogue).",
			read: (*reader).customProviders, show: c.printProviders, schema: mappingOf(defined("provider")),
		},
		named("tenants", "tenant", &c.Tenants, func(t *Tenant) string { return t.Name }, (*Tenant).keys, "none", "Who events and calls belong to, by name, with their quotas. See [Tenants](#tenants).").by((*reader).tenants),
		named("targets", "target", &c.Targets, func(t *Target) string { return t.Name }, (*Target).keys, "none", "Where effects happen, by name.").shown().by((*reader).targets),
		value("include", &c.Include, words(verbatim), "none", "A directory with further sources, relative to the configuration. Each file in it has one source and is named after it: `sources.d/shop.yml` has what `sources.shop` would have.").later().hidden(true),
		named("sources", "source", &c.Sources, func(s *Source) string { return s.Name }, (*Source).keys, "none", "The endpoints that take deliveries, by name. At least one is required to serve. `{}` says that all are in the directory of `include` or in the database: see [Sources without the file](../guides/sources.md).").shown().by((*reader).sources),
	}
}

func (d *Database) keys() []Key {
	return []Key{
		reference("url", &d.URL, verbatim, "required", "The connection string of PostgreSQL 15 or newer, direct or through a [pooler in session mode](../guides/poolers.md). `env:NAME` and `file:/path` are accepted.").shown().
			from("ONCEGATE_DATABASE_URL, before DATABASE_URL", "DATABASE_URL").by(d.readURL).masked(RedactURL),
		reference("list_url", &d.ListURL, connectionString, "as `url`", "The connection string by which the console, the API and the commands read their lists. It must lead to the same database; its role needs [no more than SELECT](../guides/production.md#a-database-role-for-lists). `env:NAME` and `file:/path` are accepted.").from("ONCEGATE_LIST_DATABASE_URL").masked(RedactURL),
		value("schema", &d.Schema, words(schemaName), "`oncegate`", "The schema of all tables, including River's.").from("ONCEGATE_SCHEMA").starts(),
		value("durability", &d.Durability, durabilities, "`server`", "What a 2xx waits for: `local`, the primary's disk; `server`, also the standbys that the server's `synchronous_standby_names` asks for; `quorum`, the same, and 503 while it names none; `apply`, also that they have applied it. [Classes](#retention-classes) may differ. See [What an acknowledgement survives](../guides/several-machines.md#what-an-acknowledgement-survives).").from("ONCEGATE_DURABILITY").starts(),
		value("gate_connections", &d.GateConnections, connections(4), "`6`", "The size of the pool that records deliveries; at least 4, and with classes of several durabilities at least 2 for each and 2 more.").from("ONCEGATE_GATE_CONNECTIONS").starts(),
		value("work_connections", &d.WorkConnections, connections(2), "`16`", "The size of the worker's pool; at least 2.").from("ONCEGATE_WORK_CONNECTIONS").starts(),
		value("queue_connections", &d.QueueConnections, connections(8), "`8`", "The size of River's pool; at least 8.").from("ONCEGATE_QUEUE_CONNECTIONS").starts(),
	}
}

// durabilities is the form of what a commit waits for.
var durabilities = oneOf(inbox.Durabilities()...)

// readURL reads the address. A variable of the environment comes before that of the default database.
func (d *Database) readURL(r *reader, n *yamltree.Node) {
	if d != &r.cfg.Database {
		r.readReference(n, setter(&d.URL, connectionString))
		return
	}
	if r.env.has("ONCEGATE_DATABASE_URL") || r.env.has("DATABASE_URL") && n.Value() == "env:DATABASE_URL" {
		return
	}
	if n.Value() == "env:DATABASE_URL" {
		return // reported once, by check
	}
	if url, ok := r.resolved(n); ok {
		r.cfg.Database.URL = url
	}
}

func (l *Listen) keys() []Key {
	return []Key{
		value("public", &l.Public, words(address), "`:8080`", "The address that takes deliveries. `PORT` sets only the port.").from("ONCEGATE_PUBLIC, before PORT", "PORT, as :PORT").starts(),
		value("admin", &l.Admin, words(address), "`127.0.0.1:8081`", "The address of `/healthz`, `/readyz`, `/metrics`, the API and the console. The first three ask for no [token](../guides/access.md), so never expose it.").from("ONCEGATE_ADMIN").starts(),
		list("trusted_proxies", &l.TrustedProxies, network, "none", "Networks whose `X-Forwarded-For` is believed and whose connections are not limited per peer.").from("ONCEGATE_TRUSTED_PROXIES, separated by commas").shown(),
		value("connections", &l.Connections, integer(1), "what the limit of open files leaves, 4096 at most", "How many connections the public listener keeps open. `serve` warns and takes fewer if the limit of open files (`ulimit -n`, systemd's `LimitNOFILE=`) is too low for them.").from("ONCEGATE_CONNECTIONS"),
		value("connections_per_peer", &l.ConnectionsPerPeer, integer(1), "a quarter of `connections`", "How many of them one peer may hold. A peer is an IPv4 address or an IPv6 /64 network that is no trusted proxy.").from("ONCEGATE_CONNECTIONS_PER_PEER"),
		value("header_timeout", &l.HeaderTimeout, duration, "`5s`", "How long a sender may take to send the headers of a request.").from("ONCEGATE_HEADER_TIMEOUT"),
		value("idle_timeout", &l.IdleTimeout, duration, "`75s`", "How long a connection may wait for its next request.").from("ONCEGATE_IDLE_TIMEOUT"),
	}
}

func (l *Log) keys() []Key {
	levels := form[slog.Level]{level, func(l slog.Level) any { return strings.ToLower(l.String()) }, enum("debug", "info", "warn", "error")}
	modes := oneOf(fold.All, fold.Sampled, fold.Errors)
	modes.parse = fold.Parse
	return []Key{
		value("level", &l.Level, levels, "`info`", "`debug`, `info`, `warn` or `error`.").from("LOG_LEVEL").starts().shown(),
		value("format", &l.Format, oneOf("json", "text"), "`json`", "`json` or `text`.").from("ONCEGATE_LOG_FORMAT").starts(),
		value("events", &l.Events, modes, "`sampled`", "Which lines about deliveries and effects are written: `all`, `sampled` or `errors`. See [The log](../guides/production.md#the-log).").from("ONCEGATE_LOG_EVENTS").starts(),
	}
}

func (m *Metrics) keys() []Key {
	return []Key{
		value("sources", &m.Sources, meteredSources, "`top 500`", "Which sources have series of their own: `all`, `top N` or `none`. `top 500` are the 500 with the most events in the 15 days before the process started. The others are counted together under the source `other`. See [Many sources](../guides/monitoring.md#many-sources).").from("ONCEGATE_METRICS_SOURCES").starts().shown(),
	}
}

// meteredSources is the form of [Metrics.Sources].
var meteredSources = form[int]{
	parse: func(s string) (int, error) {
		switch top, counted := strings.CutPrefix(s, "top "); {
		case s == "all":
			return AllSources, nil
		case s == "none":
			return 0, nil
		case counted:
			if n, err := yamltree.ParseInteger(strings.TrimSpace(top), 1); err == nil {
				return n, nil
			}
		}
		return 0, errors.New("neither all, none nor top and a number, such as top 100")
	},
	show: func(n int) any {
		switch n {
		case AllSources:
			return "all"
		case 0:
			return "none"
		}
		return "top " + strconv.Itoa(n)
	},
	schema: anyOf(enum("all", "none"), exactly(jsonSchema{"type": "string", "pattern": "^top +[1-9][0-9]*$"})),
}

func (g *Gate) keys() []Key {
	return []Key{
		value("queue_events", &g.QueueEvents, integer(1), "`8192`", "How many events may wait for a commit before a delivery is answered with 503.").from("ONCEGATE_GATE_QUEUE_EVENTS"),
		value("queue_bytes", &g.QueueBytes, size, "`64MiB`", "How many bytes of bodies may wait for a commit before a delivery is answered with 503.").from("ONCEGATE_GATE_QUEUE_BYTES"),
		value("deadline", &g.Deadline, duration, "`8s`", "How long a delivery may wait for its commit after its body was read. Then it is answered with 503.").from("ONCEGATE_GATE_DEADLINE"),
	}
}

func bodiesKeys(b *receiver.BodyLimits) []Key {
	reserve := orOff(size, errors.New("neither a size such as 8MiB nor off"))
	return []Key{
		value("memory", &b.BodyBytes, size, "`64MiB`", "Memory for the bodies of deliveries in flight. Bytes are charged as they arrive.").from("ONCEGATE_BODIES_MEMORY"),
		value("timeout", &b.BodyTimeout, duration, "`10s`", "How long a sender may take to send a body.").from("ONCEGATE_BODIES_TIMEOUT"),
		value("least_rate", &b.LeastBodyRate, orOff(byteRate, errors.New("neither a rate such as 1KiB/s nor off")), "`1KiB/s`", "A body that arrives more slowly than this is answered with 408. The rate is the average since the end of the headers. `off` is allowed.").from("ONCEGATE_BODIES_LEAST_RATE"),
		value("grace", &b.BodyGrace, duration, "`5s`", "How long a body arrives before `least_rate` applies; shorter than `timeout`.").from("ONCEGATE_BODIES_GRACE"),
		value("small", &b.SmallBody, size, "`64KiB`", "The largest body that may use `small_reserve`.").from("ONCEGATE_BODIES_SMALL"),
		value("small_reserve", &b.SmallBodyReserve, reserve, "an eighth of `memory`", "Memory that only small bodies may use. `off` is allowed.").from("ONCEGATE_BODIES_SMALL_RESERVE"),
		value("source_reserve", &b.SourceReserve, reserve, "an eighth of `memory`, divided by the number of sources", "Memory for each source that other sources never use. `off` is allowed.").from("ONCEGATE_BODIES_SOURCE_RESERVE"),
		value("peer_memory", &b.PeerBodyBytes, size, "half of `memory`", "How much memory the bodies of one peer may hold while they arrive, unless it is a single body.").from("ONCEGATE_BODIES_PEER_MEMORY"),
	}
}

func (w *Work) keys() []Key {
	return []Key{
		value("workers", &w.Workers, integer(1), "`500`", "How many effects this process carries out at once.").from("ONCEGATE_WORKERS"),
		value("lease", &w.Lease, duration, "`60s`", "How long a claim lasts. It must be longer than the longest attempt.").from("ONCEGATE_LEASE"),
		value("sweep_every", &w.SweepEvery, duration, "`10s`", "How often the sweeper looks for effects without a wake-up.").from("ONCEGATE_SWEEP_EVERY"),
	}
}
