package oncegate

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/internal/app"
)

// Config says what an [Inbox] takes and does. DatabaseURL and Sources are required; every
// other field has a default. [Open] checks it by the rules of the configuration file, and
// names what is wrong by the file's words: sources.stripe.routes.ledger is a route here too.
//
// Printing a Config shows no secret, nor DatabaseURL and the addresses of targets. fmt calls no
// methods on unexported fields, so keep a Config that is printed in an exported one.
type Config struct {
	// DatabaseURL is the PostgreSQL (15 or newer) to use: postgres://user:password@host/name.
	// It must lead to the server itself, or to a pooler in session mode. Oncegate opens
	// pools of its own, because its sessions have settings and timeouts that no other code should
	// see; (*pgxpool.Pool).Config().ConnString() gives the address of a pool that is there.
	DatabaseURL string

	// Schema holds all of Oncegate's tables, River's among them. It defaults to oncegate.
	Schema string

	// Migrate makes or upgrades the tables when the Inbox is opened. Several processes may do
	// it at once. By default Open refuses tables that are missing or too old.
	Migrate bool

	// Sources are the endpoints that take deliveries; at least one. Their routes say what
	// is done.
	Sources []Source

	// Tenants are who events and calls belong to. If there is one, every tenant that a Source or
	// a Credential names must be among them.
	Tenants []Tenant

	// Targets are what routes lead to, beside the handlers of this program.
	Targets []Target

	// Providers are definitions of senders that the catalogue does not have, as YAML, by name.
	Providers map[string]string

	// Keyring is where the keys are that seal what is stored of deliveries: [Env] or [File].
	// `oncegate keys init` makes one. By default nothing is sealed.
	Keyring Secret

	// Role says what this process does. It defaults to both.
	Role Role

	// GateConnections, WorkConnections and QueueConnections are the sizes of the pools that
	// commit deliveries, run handlers and wake workers. They default to 6, 16 and 8; the
	// least are 4, 2 and 8.
	GateConnections, WorkConnections, QueueConnections int

	// Workers is how many effects this process carries out at once. It defaults to 500, of
	// which so many act inside the database as WorkConnections allows.
	Workers int

	// Lease is how long an effect is one worker's. An attempt's timeout must leave a fifth of
	// it, at most 5 s. It defaults to 60 s.
	Lease time.Duration

	// Drain is how long a stop may take before it is forced. It defaults to 25 s.
	Drain time.Duration

	// TrustedProxies are the networks whose X-Forwarded-For is believed; none by default.
	TrustedProxies []netip.Prefix

	// Logger gets what happens, never content or secrets. It defaults to slog.Default().
	Logger *slog.Logger

	// Metrics gets the metrics of this Inbox until it ends; without it they are only at
	// [Inbox.Admin]. A second Inbox of one program needs a registerer that adds a label, made
	// by prometheus.WrapRegistererWith.
	Metrics prometheus.Registerer

	// Now is the machine's clock. It defaults to time.Now.
	Now func() time.Time

	loaded *app.Config // what Load or FromInternal read
	binary bool        // it is the module's own binary, which says by itself what is to be said
}

// Role says what a process does for the database that it shares with others.
type Role string

// The roles.
const (
	// Both takes deliveries and carries out effects.
	Both Role = ""
	// Receive only takes deliveries. It needs no handlers.
	Receive Role = "receive"
	// Work only carries out effects; [Inbox.Handler] answers 503.
	Work Role = "work"
)

// Source is one endpoint: a sender with its secrets, and the routes that its events take. It
// is served at /in/ and its name.
type Source struct {
	// Name is lower case: letters, digits, dashes. Events are unique under it.
	Name string

	// PreviousNames are the names that the source had before; it keeps their events.
	PreviousNames []string

	// Provider is who sends: a name in package catalog or in Config.Providers, such as
	// stripe, github or standard-webhooks. It defaults to Name.
	Provider string

	// Secrets verify deliveries; any of them may have signed. Most providers need one.
	Secrets []Secret

	// Credentials are who may call a source of the provider operation, which has no Secrets.
	Credentials []Credential

	// Settings are what the provider asks for beside secrets, by name. A value may be
	// env:NAME or file:PATH.
	Settings map[string][]string

	// Class says how long what is received is kept: default, or another that package inbox
	// has. Tenant is who the events belong to: it is recorded with each of them.
	Class, Tenant string

	// ExternalURL is the address that the sender uses, for senders that sign it.
	ExternalURL string

	// MaxBody is the largest body in bytes. It defaults to the provider's.
	MaxBody int64

	// Rearm is how often a redelivery gives dead effects fresh attempts. 0 is 3, -1 is never.
	Rearm int

	// Emit opens the source to [Inbox.Emit] and the SQL function emit. Such a source needs no
	// secrets.
	Emit bool

	// Redact are members of a body that no plan shows.
	Redact []string

	Routes []Route
}

// Credential is who may call a source of operations. Its name is part of every key; its secrets
// are not, so that a secret can be replaced while calls run.
type Credential struct {
	// Name is unique within the source, in lower case: letters, digits, dashes.
	Name string

	// Secrets are all accepted, each until its own [Secret.Until]. The newest is first.
	Secrets []Secret

	// Tenant is who the calls are made for. It defaults to the source's.
	Tenant string

	// Operations are the names of those that the credential may call. By default it may call all.
	Operations []string

	// NewKeys is how many new keys the credential takes in this process, such as 600/m, in the
	// words of the configuration file. Empty is no limit.
	NewKeys string
}

// Tenant is who events and calls belong to.
type Tenant struct {
	Name string

	// NewKeys is how many new keys operations take for the tenant in this process, in all
	// sources together, such as 1000/m. Empty is no limit.
	NewKeys string
}

// Route says which events of a source have which effect. Each event has one effect for each
// route that it matches.
type Route struct {
	// Name is unique within the source. A route without a Target belongs to the handler of
	// this name.
	Name string

	// PreviousNames are the names that the route had before.
	PreviousNames []string

	// Types are the types of events, with * for any text. It defaults to all.
	Types []string

	// Target is the name of a [Target]. Empty is the handler that [Inbox.Handle] attaches.
	Target string

	// When is a condition, a CEL expression such as body.data.object.total > 0. An effect for
	// which it is false is skipped.
	When string

	// Order says in which order effects happen; by default in any.
	Order Order

	// Key says which effects are one; by default each event has its own.
	Key Key

	// Map makes the body that a forward sends: a document whose texts are CEL expressions.
	Map map[string]any

	// Retry and Timeout are of each attempt. They default to the target's, and those to 12
	// attempts within hours, and 10 s.
	Retry   Retry
	Timeout time.Duration
}

// Order says in which order the effects of a route happen. Its words are those of `order` in the
// configuration file, where each is described.
type Order struct {
	// Mode is none, latest, contiguous or arrival. Empty is none.
	Mode string

	// Key and Number are expressions for an event's sequence and its place in it. They
	// default to the provider's.
	Key, Number string

	Patience, Warn, Settle                            time.Duration
	OnGap, OnDead, Late, NoKey, NoNumber, Ties, Start string
}

// Key makes effects that mean the same one effect: the first happens, the others are its
// duplicates.
type Key struct {
	// Fields are the expressions whose values are the key, such as body.order_id.
	Fields []string
	// Version makes other keys of the same fields, for a deliberate repetition. It defaults to 1.
	Version int
	// Within makes one effect only of events received within it; 0 is no bound.
	Within time.Duration
	// Keep is how long a key is remembered. It defaults to 30 days.
	Keep time.Duration
	// Exclude are members that no value of Fields counts.
	Exclude []string
}

// Retry says how often and when an effect is attempted again. A zero field is its default.
type Retry struct {
	Attempts  int
	Base, Max time.Duration
	// Deadline is how long after an event was received attempts may begin.
	Deadline time.Duration
}

// Target is something that effects act on outside this program's code. [Load] reads further
// kinds and settings from a file.
type Target struct {
	Name string

	// URL makes a target over HTTP, which gets the event as it was received, under a key by
	// which it can deduplicate. Sign are the secrets that sign it by Standard Webhooks,
	// Headers go with it, and Allow are the private networks that the URL may lead to.
	URL     string
	Sign    []Secret
	Headers map[string]Secret
	Allow   []netip.Prefix

	// Idempotent must be said of a target over HTTP: new(true) if it recognises a key that it
	// has seen, so that a failed attempt is repeated; new(false) if it does not, so that each
	// effect is sent at most once and an unknown outcome waits for a person.
	Idempotent *bool

	// Call makes a target in the database: the function that is called with the event.
	Call string

	// Concurrency is how many attempts this process makes at once. It defaults to what leaves
	// a quarter of the workers to others.
	Concurrency int

	Retry   Retry
	Timeout time.Duration
}
