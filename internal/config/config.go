// Package config reads the configuration: one strict YAML file, environment variables, or both.
// Call [Load]. Its error is [Problems], which lists every problem in the configuration, one line
// each, with file, line and column. Load never returns a configuration with problems.
//
// [Config.Effective] returns the configuration in effect. [Sections] and [Variables] are the
// reference of the available settings.
//
// Secrets are references (env:NAME, {file: path}). This package reads their values and never prints
// them.
package config

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/internal/fold"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
)

// Problem is one mistake in a configuration. Problems is the error for a configuration with
// mistakes.
type (
	Problem  = yamltree.Problem
	Problems = yamltree.Problems
)

// Config is the effective configuration: the file, environment variables and defaults combined.
type Config struct {
	// Origin is the file that was read. It is empty if only environment variables were used.
	Origin string

	// Database is the database that is named [DefaultDatabase], or the one of which this is the part: see [Config.Part].
	Database Database
	// Databases are the other databases, sorted by name. It is empty in a part.
	Databases []*Database
	// Spread are the names of the databases among which tenants are spread.
	Spread []string

	Seal Seal
	// Archive configures where bodies go before they are removed.
	Archive Archive
	// Suppressions configures how suppressed addresses are stored.
	Suppressions Suppressions
	Listen       Listen
	// Console configures the console and its logins.
	Console Console
	Log     Log
	Metrics Metrics
	Gate    Gate
	// Buffer configures where deliveries are kept while the database cannot record them.
	Buffer Buffer
	Work   Work
	// Notifications configures what operators are told without asking.
	Notifications Notifications

	// Bodies limits the cost of delivery bodies. A zero field means its default.
	Bodies receiver.BodyLimits

	// Drain is how long a stop may take before it is forced. It defaults to 25 s because most
	// supervisors kill a process after 30 s.
	Drain time.Duration
	// DrainDelay is how long a process that was told to stop still works, while /readyz says that it
	// is not ready. Zero, the default, stops at once.
	DrainDelay time.Duration

	// Classes, Tenants, Targets and Sources are sorted by name.
	Classes []*Class
	Tenants []*Tenant
	Targets []*Target
	Sources []*Source

	// Providers contains the providers that the configuration defines.
	Providers providers.Map

	// Warnings describe settings that are valid but have less effect than their name suggests, one
	// line each.
	Warnings []string

	// Include is the directory with the files of further sources. It is empty if there is none.
	Include string

	// Revision is the revision of the definitions of sources that the database had when the
	// configuration was read.
	Revision int64

	references  digests       // what the references of the file led to
	fingerprint func() string // remembers [Config.Fingerprint]; nil in a Config that Load did not make
}

// Database configures the database connections and the schema.
type Database struct {
	// Name is [DefaultDatabase] or the name under `databases`.
	Name string
	// URL is the connection string. It contains a password: print it only through RedactURL.
	URL string
	// ListURL is the connection string for reading lists. It defaults to URL. Its role needs only
	// SELECT. Like URL, it contains a password.
	ListURL string
	// Schema contains all tables, including River's. It defaults to oncegate.
	Schema string
	// Durability is what a commit waits for before Oncegate answers 2xx, unless the source's class says otherwise. It defaults to
	// [inbox.DurabilityServer].
	Durability inbox.Durability
	// GateConnections is the size of the gate's own pool. It defaults to 6; the minimum is 4.
	GateConnections int32
	// WorkConnections is the size of the effect worker's pool. It defaults to 16.
	WorkConnections int32
	// QueueConnections is the size of River's pool. It defaults to 8, which is also the minimum.
	QueueConnections int32
}

// Listen configures the public and the private listener.
type Listen struct {
	// Public is the address that accepts deliveries. It defaults to ":8080".
	Public string
	// Admin is the address that serves health and metrics. It defaults to "127.0.0.1:8081". Never
	// expose it.
	Admin string
	// TrustedProxies are the networks of proxies whose X-Forwarded-For header is trusted. There are
	// none by default. The limit of connections per peer does not apply to them.
	TrustedProxies []netip.Prefix
	// Connections is the most connections that the public listener accepts. Zero means as many as
	// the limit of open files allows, up to 4096.
	Connections int
	// ConnectionsPerPeer is the most connections of one peer. Zero means a quarter of all.
	ConnectionsPerPeer int
	// HeaderTimeout is how long a sender may take to send the headers. Zero means 5 s.
	HeaderTimeout time.Duration
	// IdleTimeout is how long a connection may wait for its next request. Zero means 75 s.
	IdleTimeout time.Duration
}

// Log configures the log.
type Log struct {
	// Level is debug, info, warn or error. It defaults to info.
	Level slog.Level
	// Format is json or text. It defaults to json.
	Format string
	// Events selects which lines about deliveries and effects are written. It defaults to sampled.
	Events fold.Mode
}

// Metrics configures the metrics.
type Metrics struct {
	// Sources is how many sources have series of their own; the others are counted together. 0 is
	// none and [AllSources] all of them. It defaults to 500.
	Sources int
}

// AllSources means that each source has separate series.
const AllSources = -1

// Gate limits the deliveries that wait for a commit. A zero field means the gate's default.
type Gate struct {
	// QueueEvents is how many events may wait before the gate answers 503.
	QueueEvents int
	// QueueBytes is how many body bytes may wait before the gate answers 503.
	QueueBytes int64
	// Deadline is how long a delivery may wait for its commit.
	Deadline time.Duration
}

// Work configures the effect worker.
type Work struct {
	// Workers is how many effects run at once in this process. Zero means the worker's default of
	// 500.
	Workers int
	// Lease is how long a claim is valid. Zero means the worker's default of 60 s. The timeout of
	// an attempt must leave a fifth of the lease, or 5 s if that is less, for recording the
	// outcome.
	Lease time.Duration
	// SweepEvery is the pause between two sweeps. Zero means the worker's default of 10 s.
	SweepEvery time.Duration
}

// Retry is a retry policy. A zero field means the worker's default.
type Retry struct {
	// Attempts is the number of attempts after which an effect becomes a dead letter.
	Attempts int
	// Base is the pause after the first failure. It doubles with each further failure, with jitter.
	Base time.Duration
	// Max is the longest pause.
	Max time.Duration
	// Deadline is how long after the receipt of an event, or after its effect was given new
	// attempts, an attempt may start.
	Deadline time.Duration
}

// Kind is the kind of a target.
type Kind string

// The kinds of target.
const (
	// KindForward sends the event over HTTP.
	KindForward Kind = "forward"
	// KindSQL calls a function in Oncegate's database, in the transaction that records the outcome.
	KindSQL Kind = "sql"
	// KindMail sends a message through a mail server.
	KindMail Kind = "mail"
	// KindPublish publishes the event to a message broker.
	KindPublish Kind = "publish"
	// KindSuppress suppresses the addresses that an event names.
	KindSuppress Kind = "suppress"
	// KindNoop does nothing, as a target outside the database. It is for benchmarks.
	KindNoop Kind = "noop"
	// KindDev is the development target, which only `oncegate dev` creates.
	KindDev Kind = "dev"
	// KindHandler is a function of the Go program that embeds Oncegate. A file cannot name it: a
	// route without a target gets a target of this kind with the route's name. See
	// [Options.Handlers].
	KindHandler Kind = "handler"
)

// Target is the configuration of a target.
type Target struct {
	Name string
	Kind Kind

	// URL is the address to which forward sends. Its path and query may contain expressions in
	// braces.
	URL string

	// Values maps the text of each expression in URL to its program.
	Values map[string]*expression.Program
	// Sign contains the secrets with which forward signs (Standard Webhooks), newest first. It may
	// be empty.
	Sign []Reference
	// Idempotent says that the target deduplicates by the idempotency key. If it is false, Oncegate
	// never repeats an attempt with an unknown outcome by itself. It is required for a forward
	// target: there is no default.
	Idempotent bool
	// RetryOn lists the HTTP statuses by which the target says that it has not started the work.
	// Nil means only 429; an empty list means none.
	RetryOn []int
	// KeyHeader is the header that carries the key. It defaults to Idempotency-Key.
	KeyHeader string
	// Headers are sent with every forward. Their values are never printed because they may contain
	// credentials.
	Headers map[string]string
	// PassHeaders lists the headers of a delivery that are forwarded with it.
	PassHeaders []string
	// ReplayedHeader is the response header by which the target says that it already knew the key.
	// It defaults to Idempotent-Replayed.
	ReplayedHeader string
	// KeepReply stores the body of a successful response, or the result of the database call, as
	// the effect's result.
	KeepReply bool
	// Probe configures how to ask the target about an unknown outcome. Nil if that is not possible.
	Probe *Probe
	// TestURL is where an operator's test event goes. It is empty if the target has no such address.
	TestURL string
	// DryRun configures how to ask the target what it would do. Nil if that is not possible.
	DryRun *DryRun
	// KeyWindow is how long the target remembers a key. When it has passed since an attempt with an
	// unknown outcome, Oncegate makes no further attempt. Zero means that the target never forgets.
	KeyWindow time.Duration
	// Method is POST, PUT or PATCH. It defaults to POST.
	Method string
	// Allow lists the private networks to which the target's name may resolve.
	Allow []netip.Prefix

	// Call is the function that a target of kind sql calls. Alternatively, Statement is the
	// statement that it runs, with parameters written as @name. Parameters computes their values.
	Call       string
	Statement  string
	Parameters map[string]*expression.Program
	// DeadOn lists SQLSTATEs, or their classes, after which an effect of kind sql becomes a dead
	// letter without a retry.
	DeadOn []string

	// SMTP is the address of the mail server, smtp:// or smtps://. From is the sender's mail
	// address.
	SMTP string
	From string
	// StartTLS is required or off.
	StartTLS string
	// Username and Password are the credentials for the mail server.
	Username string
	Password []Reference
	// Templates is the directory of the templates that routes name. A relative path is relative to
	// the directory of the configuration file.
	Templates string
	// Hello is the name that this process sends to the mail server in EHLO.
	Hello string
	// DKIM configures the signatures of messages. Nil means that messages are not signed.
	DKIM *DKIM

	// Publish configures a target of kind publish.
	Publish Publish

	// Suppress configures a target of kind suppress.
	Suppress Suppress

	// Concurrency is how many attempts this process makes at once. Zero leaves a quarter of its
	// workers to other targets, and is at most 20 at a mail server.
	Concurrency int
	// Rate limits how many attempts this process starts per period.
	Rate Rate
	// Breaker stops attempts for a while when the target keeps failing.
	Breaker Breaker
	// Timeout is the longest that an attempt may take. Zero means the worker's default of 10 s.
	Timeout time.Duration
	Retry   Retry

	node *yamltree.Node
}

// Mail is the message that a route creates from an event.
type Mail struct {
	// To computes one recipient or several. Each gets a separate message.
	To *expression.Program
	// Template names files in the target's directory. It is empty if the configuration contains the
	// templates themselves.
	Template string
	// Subject, Text and HTML are templates.
	Subject, Text, HTML string
	// ReplyTo is a template for the Reply-To address. It may be empty.
	ReplyTo string
	// ListUnsubscribe contains templates for the addresses at which the recipient unsubscribes.
	// OneClick says that a POST to such an address suffices.
	ListUnsubscribe []string
	OneClick        bool
	// Attachments computes the attached files. Nil means none.
	Attachments *expression.Program
}

// Source is one configured endpoint. It is served at /in/<name>, unless it only consumes from a broker.
type Source struct {
	Name     string
	Provider *providers.Provider

	// Database is the name of the database in which the source lives, as the file says it. Empty means that of its tenant:
	// see [Config.HomeOf].
	Database string

	// Left are the databases from which the source has moved: see [Config.Reside].
	Left []string

	// Departed says that the source lives in another database than the one of this part, which only completes the effects of what it
	// recorded. MovedTo is the name of that other database, and MovedStream the stream of its buffer.
	Departed             bool
	MovedTo, MovedStream string

	// Stored says that the source is in the database and not in the file.
	Stored bool
	// Disabled sources answer as if there were none. The effects of their recorded events continue.
	Disabled bool

	// Previous lists the source's former names.
	Previous PreviousNames

	// Secrets verify deliveries. A source of operations has either Secrets, each named after its
	// credential, or Credentials.
	Secrets     []Reference
	Credentials []*Credential
	Class       string
	Tenant      string

	// Keep is how long the source's data is kept: the horizons of its class, except that tombstones
	// are kept at least as long as the provider's windows require.
	Keep prune.Horizons

	// Settings are the values that the provider needs in addition to the secrets, by the names that
	// the provider declares.
	Settings map[string]Setting

	// ExternalURL is the address that the sender uses, for schemes that sign it. If it is empty,
	// the address is taken from the request.
	ExternalURL string
	// MaxBody is the largest accepted body in bytes. Zero means the provider's limit.
	MaxBody int64
	// Deliveries limits the verified deliveries in this process. The zero Rate means no limit.
	Deliveries Rate
	// Rearm is how often a redelivery may give dead effects new attempts. Zero means 3, and -1
	// means never.
	Rearm int
	// AnswerOutcome answers a duplicate with the outcome of its event.
	AnswerOutcome bool
	// From says from which broker the source consumes messages. Nil if it consumes none.
	From *From
	// Emit allows the SQL function emit to write events to the source.
	Emit bool
	// Shadow records events and evaluates their effects, and carries none of them out.
	Shadow bool
	// Operation contains settings for sources of operations.
	Operation Operation
	// Sessions configures the sessions that callers of operations may open for agents.
	Sessions Sessions
	// Operations lists the operations that the source declares, sorted by name. Without any, the
	// source accepts every operation.
	Operations []*DeclaredOperation

	// Reconcile configures how the sender's API is asked which events there were. Nil if it is not.
	Reconcile *Reconcile

	// Redact lists members of a body that a plan does not show: names, which apply at any depth, or
	// dotted paths, in which * matches any one step.
	Redact []string

	// Labels maps the name of each label, by which events are searched, to its expression.
	Labels map[string]*expression.Program

	Routes []*Route

	node *yamltree.Node
}

// Keys returns the secrets with which the target signs.
func (t *Target) Keys() []providers.Secret { return values(t.Sign) }

// Route selects events of a source and sends them to a target.
type Route struct {
	Name string
	// Previous lists the route's former names.
	Previous PreviousNames
	Types    []string
	Target   *Target
	// Order configures the order of the route's effects.
	Order Order
	// When is the route's condition. Nil means that the route has none.
	When *expression.Program
	// Key determines which events share one effect. Nil means one effect per event.
	Key *EffectKey
	// Fetch gets what the event names before an effect. Nil fetches nothing.
	Fetch *Fetch
	// Map computes the body that forward sends. Nil sends the body as received.
	Map *expression.Mapping
	// Mail configures the message for a target of kind mail.
	Mail *Mail
	// AssumeIdempotent says that the target recognizes a key for longer than its KeyWindow.
	AssumeIdempotent bool
	// Retry and Timeout default to the target's values.
	Retry   Retry
	Timeout time.Duration

	node *yamltree.Node
}
