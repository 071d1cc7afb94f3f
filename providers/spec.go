package providers

import "time"

// Spec is a provider as data: the format of a file of package catalog and of a custom provider in
// the user's configuration. The format covers every family that the catalogue needs. Parsing
// refuses a value that this version does not implement and never ignores it.
//
// JSON paths are names joined by dots ("data.object.id"). A number also selects an element of an
// array. "$" is the whole document. Durations and sizes are written as everywhere in a
// configuration: "300s", "1.5m", "30d", "2w"; 512, "512KiB", "25MiB".
type Spec struct {
	// Extends names a provider of the catalogue or the configuration that is the base of this one.
	// Every key that you write replaces the base's key; a list replaces the whole list. A rule for
	// the event id (identity.mode, candidates or hash) replaces the base's rule completely. The
	// title is not inherited: it is the provider's name unless you write one. Answers (ack,
	// reject), tolerances (verify.timestamp.past and future) and windows are facts about the base's
	// sender. They apply until you write them, and a configuration warns of each that you leave
	// out.
	Extends string `yaml:"extends"`

	// Title is the name shown to people.
	Title string `yaml:"title"`

	// Docs is the address of the provider's own documentation.
	Docs string `yaml:"docs"`

	// Checked is the year and month, such as "2026-11", in which this entry was last compared with
	// the provider's documentation or own code, as far as these were available. Points that this
	// did not settle are under confidence and undocumented. A provider that extends this one does
	// not inherit it.
	Checked string `yaml:"checked"`

	// ProvedBy says who outside Oncegate confirmed the rules of verify: vendor (a signed request that
	// the sender published), library (the sender's own library, or the one its documentation names,
	// signed or accepted a request), capture (a request that the sender really sent), third-party (an
	// independent implementation signed or accepted a request) or documentation (the
	// rules were only read, and the entry is unproved). The strongest one counts. Every entry of the
	// catalogue says it. A provider that extends another one does not inherit it.
	ProvedBy string `yaml:"proved_by"`

	// Notes tell the operator what is unusual about this provider.
	Notes []string `yaml:"notes"`

	// Confidence says for each field how reliable it is: sdk, docs, secondary, unread. Keys are
	// paths of this spec. A field without an entry is sdk or docs.
	Confidence map[string]string `yaml:"confidence"`

	// None lists the paths of this spec that the provider does not have, such as occurred_at or
	// handshakes, so that an absent entry is not mistaken for a forgotten one. Undocumented lists
	// the paths that its documentation does not mention, such as windows.ack_within.
	None         []string `yaml:"none"`
	Undocumented []string `yaml:"undocumented"`

	// Settings declares what a source of this provider adds in its configuration, apart from the
	// secrets.
	Settings []SettingSpec `yaml:"settings"`

	Request    RequestSpec  `yaml:"request"`
	Verify     VerifySpec   `yaml:"verify"`
	Modes      []ModeSpec   `yaml:"modes"`
	Body       BodySpec     `yaml:"body"`
	Split      SplitSpec    `yaml:"split"`
	Identity   IdentitySpec `yaml:"identity"`
	Type       []Field      `yaml:"type"`
	OccurredAt []Field      `yaml:"occurred_at"`
	Sequence   SequenceSpec `yaml:"sequence"`

	// Volatile lists the JSON paths, or names of form fields, that the sender changes from one
	// attempt to the next. A * matches every member or element. An event's digest does not include
	// them, and comparisons ignore them.
	Volatile []string `yaml:"volatile"`

	Handshakes []HandshakeSpec `yaml:"handshakes"`
	Ack        AnswerSpec      `yaml:"ack"`
	Reject     AnswerSpec      `yaml:"reject"`
	Windows    WindowsSpec     `yaml:"windows"`

	// Reconcile says how to ask the sender's API which events there were.
	Reconcile ReconcileSpec `yaml:"reconcile"`

	// Example is a request that `oncegate send` can sign.
	Example ExampleSpec `yaml:"example"`

	// Types lists all event types that the sender documents. A configuration warns of a route that
	// names a type that is not among them. A provider that extends this one inherits the list unless
	// it writes a rule for type.
	Types TypesSpec `yaml:"types"`
}

// TypesSpec lists the event types of a sender, as the rule for type reads them.
type TypesSpec struct {
	// Source is where the sender publishes the list.
	Source string `yaml:"source"`

	// Known is the complete list. Leave it out if you do not know all of the types, because a
	// configuration is warned of a type that the list lacks. Write * for a part that the sender's users
	// choose.
	Known []string `yaml:"known"`
}

// SettingSpec declares a value that a source sets: one text, or a list.
type SettingSpec struct {
	Name  string `yaml:"name"`
	About string `yaml:"about"`

	// Required refuses a source without this setting. Default is the value if the source leaves it
	// out.
	Required bool     `yaml:"required"`
	Default  []string `yaml:"default"`

	// Secret requires that the value is a reference. The value is never printed.
	Secret bool `yaml:"secret"`

	// Example is a value for the provider's page. Setup names the purpose of a setting that is not
	// required: the page shows all settings of one setup in a separate example.
	Example []string `yaml:"example"`
	Setup   string   `yaml:"setup"`
}

// RequestSpec limits what is read before anything is verified.
type RequestSpec struct {
	// Methods defaults to POST. The methods of handshakes are added. A GET request has its fields
	// in the address, and they are read like form fields.
	Methods []string `yaml:"methods"`

	// ContentTypes lists media types without parameters. If it is empty, any type is accepted.
	ContentTypes []string `yaml:"content_types"`

	// Encodings lists the Content-Encodings that the provider documents, normally none.
	Encodings []string `yaml:"encodings"`

	// MaxBody is the largest body. It defaults to 1 MiB.
	MaxBody Size `yaml:"max_body"`
}

// WindowsSpec contains the periods within which the provider may deliver an event again.
type WindowsSpec struct {
	// Retry is the period of the provider's own retries, Resend that in which a person can trigger
	// a redelivery there, and List how far back its API lists events.
	Retry  WindowSpec `yaml:"retry"`
	Resend WindowSpec `yaml:"resend"`
	List   WindowSpec `yaml:"list"`

	// Floor is the shortest default life of a tombstone: 3 x the longest window unless you write a
	// longer one.
	Floor Duration `yaml:"floor"`

	// Age is occurred_at if that is the time of the event itself, not of the facts that it reports.
	// Oncegate then recognises an event that is older than its tombstone could be.
	Age string `yaml:"age"`

	// AckWithin is how long the provider waits for the answer.
	AckWithin Duration `yaml:"ack_within"`

	// Failures is how many failures in a row make the provider stop delivering to an endpoint, and
	// zero if it publishes no such number.
	Failures int `yaml:"failures"`
}

// WindowSpec is a period and the place where it is documented.
type WindowSpec struct {
	For    Duration `yaml:"for"`
	Source string   `yaml:"source"`
	Note   string   `yaml:"note"`
}

// ExampleSpec is a delivery as the provider would send it, before signing. {{id}} is replaced by
// the event id and {{now}} by the time in seconds.
type ExampleSpec struct {
	// Source is where the sender publishes the payload, or those members from which id, type, time
	// and sequence are read. Without one, the rules are based on Oncegate's own example, and the
	// list of providers says so.
	Source string `yaml:"source"`

	// Own lists which of type, occurred_at and sequence no published payload shows. They are read
	// as in Oncegate's own example.
	Own []string `yaml:"own"`

	Headers map[string]string `yaml:"headers"`
	Body    string            `yaml:"body"`
}

// Duration is a period. [Off] disables what it limits.
type Duration time.Duration

// Off is the Duration that is written "none".
const Off Duration = -1

// Size is a number of bytes.
type Size int64
