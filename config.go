package oncegate

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncegate/oncegate/internal/config"
)

// Config configures an [Inbox]. DatabaseURL and Sources are required; every other field has a
// default. [Open] checks it by the rules of the configuration file, and its errors use the names of
// the file: sources.stripe.routes.ledger is a route here too.
//
// Printing a Config shows no secret, DatabaseURL or target address. fmt calls no methods on
// unexported fields, so if you print a struct that contains a Config, export the field.
type Config struct {
	// DatabaseURL is the PostgreSQL server (15 or newer) to use:
	// postgres://user:password@host/name. It must lead to the server itself, or to a pooler in
	// session mode. Oncegate opens its own pools, because its sessions have settings and timeouts
	// that no other code should see. For an existing pool, (*pgxpool.Pool).Config().ConnString()
	// returns the address.
	DatabaseURL string

	// Schema contains all of Oncegate's tables, including River's. It defaults to oncegate.
	Schema string

	// Migrate creates or upgrades the tables when the Inbox is opened. Several processes may do
	// this at once. By default Open returns an error if the tables are missing or too old.
	Migrate bool

	// Sources are the endpoints that accept deliveries. At least one is required. Their routes
	// determine what happens to events.
	Sources []Source

	// Tenants are the owners of events and calls. If there are any, every tenant that a Source or a
	// Credential names must be among them.
	Tenants []Tenant

	// Targets are the targets of routes, in addition to the handlers of this program.
	Targets []Target

	// Providers contains definitions of senders that are not in the catalog, as YAML, by name.
	Providers map[string]string

	// Keyring is a reference, [Env] or [File], to the keys that seal stored deliveries. `oncegate
	// keys rotate` creates a keyring. By default nothing is sealed.
	Keyring Secret

	// Role selects what this process does. It defaults to Both.
	Role Role

	// GateConnections, WorkConnections and QueueConnections are the sizes of the pools that commit
	// deliveries, run handlers and wake workers. They default to 6, 16 and 8; the minimums are 4, 2
	// and 8.
	GateConnections, WorkConnections, QueueConnections int

	// Workers is how many effects this process runs at once. It defaults to 500, of which as many
	// as WorkConnections allows can act inside the database.
	Workers int

	// Lease is how long a worker's claim on an effect is valid. The timeout of an attempt must
	// leave a fifth of the lease, or 5 s if that is less. It defaults to 60 s.
	Lease time.Duration

	// Drain is how long a stop may take before it is forced. It defaults to 25 s.
	Drain time.Duration

	// TrustedProxies are the networks of proxies whose X-Forwarded-For header is trusted. There are
	// none by default.
	TrustedProxies []netip.Prefix

	// Logger receives the log, which never contains content or secrets. It defaults to
	// slog.Default().
	Logger *slog.Logger

	// Metrics registers the metrics of this Inbox until the Inbox ends. Without it they are only
	// available at [Inbox.Admin]. A second Inbox in one program needs a registerer that adds a
	// label, made by prometheus.WrapRegistererWith.
	Metrics prometheus.Registerer

	// Traces makes OpenTelemetry spans of deliveries and of attempts, such as otel.GetTracerProvider()
	// or a provider of the SDK. The contexts of handlers carry the span of their attempt. Without it
	// nothing is traced.
	Traces trace.TracerProvider

	// Now returns the current time. It defaults to time.Now.
	Now func() time.Time

	loaded *config.Config // the file that Load read
}

// Role selects what a process does for the database that it shares with other processes.
type Role string

// The roles.
const (
	// Both accepts deliveries and runs effects.
	Both Role = ""
	// Receive only accepts deliveries. It needs no handlers.
	Receive Role = "receive"
	// Work only runs effects. [Inbox.Handler] answers 503.
	Work Role = "work"
)

// Source is one endpoint: a sender with its secrets, and the routes of its events. Its path is /in/
// followed by its name.
type Source struct {
	// Name consists of lower-case letters, digits, dashes and underscores. Event ids are unique
	// within a source.
	Name string

	// PreviousNames lists the source's former names. The source keeps the events of those names.
	PreviousNames []string

	// Provider is the sender's protocol: a name in package catalog or in Config.Providers, such as
	// stripe, github or standard-webhooks. It defaults to Name.
	Provider string

	// Secrets verify deliveries. A delivery may be signed with any of them. Most providers need
	// one.
	Secrets []Secret

	// Credentials are the callers of a source with the provider operation, which has no Secrets.
	Credentials []Credential

	// Settings are the values that the provider needs in addition to secrets, by name. A value may
	// be env:NAME or file:PATH.
	Settings map[string][]string

	// Class determines how long received data is kept: default, or another class of package inbox.
	// Tenant is the owner of the events and is recorded with each of them.
	Class, Tenant string

	// ExternalURL is the address that the sender uses, for senders that sign the address.
	ExternalURL string

	// MaxBody is the largest accepted body in bytes. It defaults to the provider's limit.
	MaxBody int64

	// Rearm is how often a redelivery may give dead effects new attempts. Zero means 3, and -1
	// means never.
	Rearm int

	// Emit allows [Inbox.Emit] and the SQL function emit to write events to the source. Such a
	// source needs no secrets.
	Emit bool

	// Shadow records the events and evaluates their effects, and carries none of them out: no target
	// and no handler is called. An effect keeps the mode in which its event was recorded.
	Shadow bool

	// Redact lists members of a body that plans do not show.
	Redact []string

	Routes []Route
}

// Credential identifies a caller of a source of operations. Its name is part of every key; its
// secrets are not, so you can replace a secret while calls run.
type Credential struct {
	// Name is unique within the source. It consists of lower-case letters, digits, dashes and
	// underscores.
	Name string

	// Secrets are all accepted, each until its own [Secret.Until]. The newest is first.
	Secrets []Secret

	// Tenant is the tenant for which the calls are made. It defaults to the source's tenant.
	Tenant string

	// Operations lists the operations that the credential may call. By default it may call all of
	// them.
	Operations []string

	// NewKeys limits how many new keys the credential may use in this process, such as 600/m, in
	// the syntax of the configuration file. Empty means no limit.
	NewKeys string
}

// Tenant is an owner of events and calls.
type Tenant struct {
	Name string

	// NewKeys limits how many new keys operations may use for the tenant in this process, in all
	// sources together, such as 1000/m. Empty means no limit.
	NewKeys string
}

// Route selects events of a source for an effect. Each event has one effect for each route that it
// matches.
type Route struct {
	// Name is unique within the source. A route without a Target uses the handler with this name.
	Name string

	// PreviousNames lists the route's former names.
	PreviousNames []string

	// Types lists event types, with * for any text. It defaults to all types.
	Types []string

	// Target is the name of a [Target]. Empty means the handler that [Inbox.Handle] attaches.
	Target string

	// When is a condition, a CEL expression such as body.data.object.total > 0. If it is false, the
	// effect is skipped.
	When string

	// Fetch is the request that gets the thing that the event only names, before each effect. By
	// default there is none.
	Fetch Fetch

	// Order configures the order of the effects. By default there is no order.
	Order Order

	// Key determines which events share one effect. By default each event has its own effect.
	Key Key

	// Map computes the body that a forward sends: a document whose strings are CEL expressions.
	Map map[string]any

	// Retry and Timeout apply to attempts. They default to the target's values, which default to 12
	// attempts within hours, and 10 s.
	Retry   Retry
	Timeout time.Duration
}

// Fetch is a GET request before an effect. Expressions see its answer as fetched. If it fails, the
// effect certainly did not happen, and the attempt is repeated.
type Fetch struct {
	// URL is the address. Its path and query may contain CEL expressions in braces, as in
	// https://api.example/payments/{body.id}. If URL is one expression, Hosts is required.
	URL string

	// Hosts are the only servers that are asked. They default to the server of URL.
	Hosts []string

	// Bearer is the token, if the server needs one. A [File] is read again for each request.
	Bearer Secret

	// Headers are sent with the request, and Allow lists the private networks to which the hosts may
	// resolve.
	Headers map[string]Secret
	Allow   []netip.Prefix

	// Timeout limits one request; it defaults to 10 s. MaxSize limits the answer in bytes; it defaults
	// to 256 KiB and is at most 8 MiB.
	Timeout time.Duration
	MaxSize int64
}

// Order configures the order of a route's effects. Its fields have the names of the keys of `order`
// in the configuration reference, which describes each of them.
type Order struct {
	// Mode is none, latest, contiguous or arrival. Empty means none.
	Mode string

	// Key and Number are expressions for an event's sequence and its place in it. They default to
	// the provider's.
	Key, Number string

	Patience, Warn, Settle                            time.Duration
	OnGap, OnDead, Late, NoKey, NoNumber, Ties, Start string
}

// Key merges effects with the same meaning into one: the first one runs, and the others are its
// duplicates.
type Key struct {
	// Fields are the expressions whose values form the key, such as body.order_id.
	Fields []string
	// Version changes the keys that the same fields produce, for a deliberate repetition. It
	// defaults to 1.
	Version int
	// Within limits duplicates to events received within this time of each other. Zero means no
	// limit.
	Within time.Duration
	// Keep is how long a key is remembered. It defaults to 30 days.
	Keep time.Duration
	// Exclude lists members that are ignored in the values of Fields.
	Exclude []string
}

// Retry configures how often and when a failed attempt is repeated. A zero field means its default.
type Retry struct {
	Attempts  int
	Base, Max time.Duration
	// Deadline is how long after the receipt of an event, or after its effect was given new
	// attempts, an attempt may start.
	Deadline time.Duration
}

// Target is a destination of effects outside this program's code. [Load] supports further kinds and
// settings in a file.
type Target struct {
	Name string

	// URL makes this a target over HTTP. It receives the event as it arrived, with a key by which
	// it can deduplicate. Sign contains the secrets that sign the request by Standard Webhooks,
	// Headers are sent with it, and Allow lists the private networks to which the URL may resolve.
	URL     string
	Sign    []Secret
	Headers map[string]Secret
	Allow   []netip.Prefix

	// Idempotent is required for a target over HTTP. Use new(true) if the target recognizes a key
	// that it has seen, so that failed attempts are repeated. Use new(false) if it does not:
	// Oncegate then sends each effect at most once, and an operator must resolve an unknown
	// outcome.
	Idempotent *bool

	// Call makes this a target in the database: it names the function that is called with the
	// event.
	Call string

	// Concurrency is how many attempts this process makes at once. By default it leaves a quarter
	// of the workers to other targets.
	Concurrency int

	Retry   Retry
	Timeout time.Duration
}
