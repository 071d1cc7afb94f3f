// Package config reads the configuration: one strict YAML file, the environment,
// or both. Call [Load]; its error is [Problems], which names everything that is wrong at
// once, one line each, with file, line and column. A configuration with a problem is not returned.
//
// [Config.Effective] prints what is in force, and [Sections] and [Variables] are the reference of
// what can be written.
//
// Secrets are references (env:NAME, {file: path}); the values are read here and
// cannot be printed.
package config

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/oncegate/oncegate/expression"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/fold"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
)

// Problem is one thing that is wrong with a configuration, and Problems the error of one in
// which something is.
type (
	Problem  = yamltree.Problem
	Problems = yamltree.Problems
)

// Config is the effective configuration: file, environment and defaults.
type Config struct {
	// Origin is the file it was read from; empty if it is the environment alone.
	Origin string

	Database Database
	Seal     Seal
	// Suppressions says how suppressed addresses are kept.
	Suppressions Suppressions
	Listen       Listen
	// Console says how people reach the console and log in to it.
	Console Console
	Log     Log
	Gate    Gate
	Work    Work

	// Bodies bounds what bodies of deliveries may cost; a zero field is its default.
	Bodies receiver.BodyLimits

	// Drain is how long a stop may take before it is forced. It defaults to 25 s,
	// below the 30 s after which most supervisors kill.
	Drain time.Duration

	// Classes, Tenants, Targets and Sources are sorted by name.
	Classes []*Class
	Tenants []*Tenant
	Targets []*Target
	Sources []*Source

	// Providers are those of the catalogue and those the configuration defines.
	Providers map[string]*providers.Provider
	// Custom are the names of the providers the configuration defines, sorted.
	Custom []string

	// Warnings are about settings that are accepted and do less than their name
	// says; one line each.
	Warnings []string
}

// Database says where the tables are.
type Database struct {
	// URL is the connection string. It holds a password: print it only through
	// RedactURL.
	URL string
	// ListURL is the connection string by which lists are read; URL by default. Its role
	// needs no more than SELECT. It holds a password as URL does.
	ListURL string
	// Schema holds all tables, River's too. It defaults to oncegate.
	Schema string
	// Durability is what a 2xx waits for. Only local (a commit on the primary's
	// disk) is built.
	Durability string
	// GateConnections is the size of the gate's own pool; 6 by default, at least 4.
	GateConnections int32
	// WorkConnections is the size of the effect worker's pool; 16 by default.
	WorkConnections int32
	// QueueConnections is the size of River's pool; 8 by default, at least 8.
	QueueConnections int32
}

// Listen is the two addresses.
type Listen struct {
	// Public takes deliveries; ":8080" by default.
	Public string
	// Admin serves health and metrics; "127.0.0.1:8081" by default. Never expose it.
	Admin string
	// TrustedProxies are the networks whose X-Forwarded-For is believed; none by default.
	// They have no limit of connections of their own.
	TrustedProxies []netip.Prefix
	// Connections is how many connections the public listener may have; 0 is what the
	// limit of open files leaves, at most 4096.
	Connections int
	// ConnectionsPerPeer is how many of them one peer may have; 0 is a quarter.
	ConnectionsPerPeer int
	// HeaderTimeout is how long a sender may take for the headers; 0 is 5 s.
	HeaderTimeout time.Duration
	// IdleTimeout is how long a connection may wait for its next request; 0 is 75 s.
	IdleTimeout time.Duration
}

// Log says how the process writes its log.
type Log struct {
	// Level is debug, info, warn or error; info by default.
	Level slog.Level
	// Format is json or text; json by default.
	Format string
	// Events says which lines about deliveries and effects are written; sampled by
	// default.
	Events fold.Mode
}

// Gate bounds what waits for a commit.
type Gate struct {
	// QueueEvents is how many events may wait before 503; 0 is the gate's default.
	QueueEvents int
	// QueueBytes is how many body bytes may wait before 503; 0 is the gate's default.
	QueueBytes int64
	// Deadline is how long a delivery may wait for its commit; 0 is the gate's default.
	Deadline time.Duration
}

// Work bounds the effect worker.
type Work struct {
	// Workers is how many effects run at once in this process; 0 is the worker's
	// default of 500.
	Workers int
	// Lease is how long a claim holds; 0 is the worker's default of 60 s. An
	// attempt's timeout has to leave a fifth of it, at most 5 s.
	Lease time.Duration
	// SweepEvery is the pause between two sweeps; 0 is the worker's default of 10 s.
	SweepEvery time.Duration
}

// Retry is a retry policy. A zero field is the worker's default.
type Retry struct {
	// Attempts is how many attempts are made before an effect is dead.
	Attempts int
	// Base is the pause after the first failure; it doubles from there, with jitter.
	Base time.Duration
	// Max is the longest pause.
	Max time.Duration
	// Deadline is how long after admission attempts may start.
	Deadline time.Duration
}

// Kind is the kind of a target.
type Kind string

// The kinds of target.
const (
	// KindForward sends the event over HTTP.
	KindForward Kind = "forward"
	// KindSQL calls a function in our database, in the transaction that records the outcome.
	KindSQL Kind = "sql"
	// KindMail hands a message to a mail server.
	KindMail Kind = "mail"
	// KindSuppress suppresses the addresses that an event names.
	KindSuppress Kind = "suppress"
	// KindNoop does nothing, as a target outside the database: for benchmarks.
	KindNoop Kind = "noop"
	// KindDev is the development target; only `oncegate dev` has one.
	KindDev Kind = "dev"
	// KindHandler is a function of the Go program that embeds Oncegate. No file names it:
	// a route without a target has one of the route's name; see [Options.Handlers].
	KindHandler Kind = "handler"
)

// Target is something effects act on.
type Target struct {
	Name string
	Kind Kind

	// URL is where forward sends to. Expressions may stand in its path and its query in braces.
	URL string

	// Values are the expressions of URL, by their texts.
	Values map[string]*expression.Program
	// Sign are the secrets forward signs with (Standard Webhooks), newest first; may be empty.
	Sign []Reference
	// Idempotent says that the target deduplicates by the idempotency key. If not,
	// an attempt whose end is unknown is never repeated by itself. A forward must say
	// it: there is no default.
	Idempotent bool
	// RetryOn lists the statuses by which the target says that it has not begun the
	// work. nil is the default, 429 alone; an empty list names none.
	RetryOn []int
	// KeyHeader is the header that carries the key; Idempotency-Key by default.
	KeyHeader string
	// Headers are sent with every forward. Their values are not printed: they may
	// hold credentials.
	Headers map[string]string
	// PassHeaders are the headers of a delivery that are sent on with it.
	PassHeaders []string
	// ReplayedHeader is the header by which a reply says that the target knew the
	// key; Idempotent-Replayed by default.
	ReplayedHeader string
	// KeepReply keeps the body of a success, or what the database returns, as the effect's result.
	KeepReply bool
	// Probe is how the target is asked about an unknown outcome; nil if it cannot be.
	Probe *Probe
	// DryRun is how the target is asked what it would do; nil if it cannot be.
	DryRun *DryRun
	// KeyWindow is how long the target remembers a key. Later than this after an
	// attempt whose outcome is not known, none is made. Zero is for ever.
	KeyWindow time.Duration
	// Method is POST, PUT or PATCH; POST by default.
	Method string
	// Allow are the private networks that the target's name may lead to.
	Allow []netip.Prefix

	// Call is the function that sql calls; or Statement is what it runs, with
	// parameters written as @name, whose values Parameters gives.
	Call       string
	Statement  string
	Parameters map[string]*expression.Program
	// DeadOn lists SQLSTATEs, or their classes, that end an effect of sql without another attempt.
	DeadOn []string

	// SMTP is mail's server, smtp:// or smtps://; From the sender's address.
	SMTP string
	From string
	// StartTLS is required or off.
	StartTLS string
	// Username and Password log in at the mail server.
	Username string
	Password []Reference
	// Templates is the directory of the templates that routes name; one that is not
	// absolute is looked for beside the configuration file.
	Templates string
	// Hello is the name this process gives itself there.
	Hello string
	// DKIM signs the messages; nil does not.
	DKIM *DKIM

	// Suppress is what a target of kind suppress does.
	Suppress Suppress

	// Concurrency is how many attempts this process makes at once; 0 leaves a quarter
	// of its workers to other targets.
	Concurrency int
	// Rate is how many attempts this process begins in a time.
	Rate Rate
	// Breaker stops attempts at a target in trouble.
	Breaker Breaker
	// Timeout is the longest attempt; 0 is the worker's default of 10 s.
	Timeout time.Duration
	Retry   Retry

	node *yamltree.Node
}

// Mail is the message that a route makes of an event.
type Mail struct {
	// To gives one recipient or several, each of which gets a message of its own.
	To *expression.Program
	// Template names files of the target's directory; empty if the templates are
	// written out.
	Template string
	// Subject, Text and HTML are templates.
	Subject, Text, HTML string
	// ReplyTo is a template for the address that answers go to; empty is none.
	ReplyTo string
	// ListUnsubscribe are templates for the addresses at which the recipient unsubscribes;
	// OneClick says that a POST is enough.
	ListUnsubscribe []string
	OneClick        bool
	// Attachments gives the files that go with the message; nil is none.
	Attachments *expression.Program
}

// Source is one configured endpoint, served at /in/<name>.
type Source struct {
	Name     string
	Provider *providers.Provider

	// Previous are the names that the source had before.
	Previous PreviousNames

	// Secrets verify deliveries. A source of operations has either them, each named after its
	// credential, or Credentials.
	Secrets     []Reference
	Credentials []*Credential
	Class       string
	Tenant      string

	// Keep is how long what belongs to the source is kept: its class's horizons, but
	// tombstones live as long as the provider's windows ask for.
	Keep prune.Horizons

	// Settings are what the provider asks for beside the secrets, by the names that
	// it declares.
	Settings map[string]Setting

	// ExternalURL is the address the sender uses, for schemes that sign it; empty
	// takes what the request says.
	ExternalURL string
	// MaxBody is the largest body in bytes; 0 is the provider's.
	MaxBody int64
	// Rearm is how often a redelivery may give dead effects fresh attempts; 0 is 3, -1 is off.
	Rearm int
	// AnswerOutcome answers a duplicate with what became of the event.
	AnswerOutcome bool
	// Emit opens the source to the SQL function emit.
	Emit bool
	// Operation is for sources of operations.
	Operation Operation
	// Sessions are those that callers of operations may open for agents.
	Sessions Sessions
	// Operations are those that a source of operations declares, sorted by name; none takes any.
	Operations []*DeclaredOperation

	// Redact are the members of a body that a plan does not show: names, wherever they
	// stand, or dotted paths, in which * is any one step.
	Redact []string

	// Labels are what the events of the source are searched by, by name.
	Labels map[string]*expression.Program

	Routes []*Route

	node *yamltree.Node
}

// Keys gives the secrets a target signs with.
func (t *Target) Keys() []providers.Secret { return values(t.Sign) }

// Route says which events of a source lead to which target.
type Route struct {
	Name string
	// Previous are the names that the route had before.
	Previous PreviousNames
	Types    []string
	Target   *Target
	// Order says in which order the effects happen.
	Order Order
	// When is the route's condition; nil is none.
	When *expression.Program
	// Key says which effects are one; nil is one for each event.
	Key *EffectKey
	// Map makes the body that forward sends; nil sends it as received.
	Map *expression.Mapping
	// Mail makes the message of a target of kind mail.
	Mail *Mail
	// AssumeIdempotent trusts the target to recognise a key for longer than its
	// KeyWindow.
	AssumeIdempotent bool
	// Retry and Timeout are the target's, unless the route says otherwise.
	Retry   Retry
	Timeout time.Duration

	node *yamltree.Node
}
