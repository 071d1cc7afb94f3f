package providers

import "time"

// Spec is a provider as data: the shape of a file of package catalog and of a
// custom provider in the user's configuration. The shape covers every family
// the catalogue will ever need; what no Go implements yet is refused when the
// spec is read, never ignored.
//
// JSON paths are names joined by dots ("data.object.id"); a number also picks
// an element of an array; "$" is the whole document. Durations and sizes are written as
// anywhere in a configuration: "300s", "1.5m", "30d", "2w"; 512, "512KiB", "25MiB".
type Spec struct {
	// Extends names a provider, of the catalogue or of the configuration, on which
	// this one is built: what is written here replaces what is there, key by key; lists
	// are replaced whole. A rule for the event id (identity.mode, candidates or hash)
	// replaces the base's rule as a whole, with all that belongs to it. The title is
	// not taken over: it is the provider's name unless it is written. Answers (ack,
	// reject), tolerances (verify.timestamp.past and future) and windows are facts about
	// the base's sender: they are in force until they are written here, and a
	// configuration warns of each that is not.
	Extends string `yaml:"extends"`

	// Title is the name for people.
	Title string `yaml:"title"`

	// Docs is the address of the provider's own documentation.
	Docs string `yaml:"docs"`

	// Checked is when what this entry says was last compared with the provider's
	// documentation or own code, as far as that was at hand: a year and a month,
	// "2026-11". What it does not settle is under confidence and undocumented. It is
	// not taken over by what extends the entry.
	Checked string `yaml:"checked"`

	// Notes tell the operator what is peculiar.
	Notes []string `yaml:"notes"`

	// Confidence says per field how well it is known: sdk, docs, secondary,
	// unread. Keys are paths of this spec; a field without an entry is sdk or docs.
	Confidence map[string]string `yaml:"confidence"`

	// None are the paths of this spec of which the provider has none, such as
	// occurred_at or handshakes, so that what is not written here is known to be
	// absent and not forgotten. Undocumented are those of which its documentation
	// says nothing, such as windows.ack_within.
	None         []string `yaml:"none"`
	Undocumented []string `yaml:"undocumented"`

	// Settings are what a source of this provider adds in its configuration, beside
	// the secrets.
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

	// Volatile are the JSON paths, or names of a form's fields, that the sender
	// changes from one try to the next. A * stands for every member or element. They
	// are no part of an event's digest and are not compared.
	Volatile []string `yaml:"volatile"`

	Handshakes []HandshakeSpec `yaml:"handshakes"`
	Ack        AnswerSpec      `yaml:"ack"`
	Reject     AnswerSpec      `yaml:"reject"`
	Windows    WindowsSpec     `yaml:"windows"`

	// Example is a request that `oncegate send` can sign.
	Example ExampleSpec `yaml:"example"`
}

// SettingSpec declares a value that a source gives: one text, or a list.
type SettingSpec struct {
	Name  string `yaml:"name"`
	About string `yaml:"about"`

	// Required refuses a source without it. Default stands where it is left out.
	Required bool     `yaml:"required"`
	Default  []string `yaml:"default"`

	// Secret says that the value must be a reference and is never printed.
	Secret bool `yaml:"secret"`

	// Example is a value as the provider's page shows it, and Setup what the setting
	// is for, where it is not required: settings of one setup are shown together, in
	// an example of their own.
	Example []string `yaml:"example"`
	Setup   string   `yaml:"setup"`
}

// RequestSpec bounds what is read before anything is verified.
type RequestSpec struct {
	// Methods default to POST; those of handshakes are added. What comes by GET has
	// its fields in the address, and they are read as those of a form.
	Methods []string `yaml:"methods"`

	// ContentTypes are media types without parameters; empty takes any.
	ContentTypes []string `yaml:"content_types"`

	// Encodings are the Content-Encodings the provider documents; normally none.
	Encodings []string `yaml:"encodings"`

	// MaxBody defaults to 1 MiB.
	MaxBody Size `yaml:"max_body"`
}

// WindowsSpec are the times within which the provider may deliver an event again.
type WindowsSpec struct {
	// Retry is the provider's own repetition, Resend what a person can trigger
	// there, List how far back its API lists events.
	Retry  WindowSpec `yaml:"retry"`
	Resend WindowSpec `yaml:"resend"`
	List   WindowSpec `yaml:"list"`

	// Floor is the shortest a tombstone may live by default: 3 x the longest window
	// unless a longer one is given.
	Floor Duration `yaml:"floor"`

	// Age is occurred_at where that is the event's own time, not a time of what it
	// tells of: by it an event is found to be older than its tombstone could be.
	Age string `yaml:"age"`

	// AckWithin is how long the provider waits for the answer.
	AckWithin Duration `yaml:"ack_within"`
}

// WindowSpec is a time and where it is documented.
type WindowSpec struct {
	For    Duration `yaml:"for"`
	Source string   `yaml:"source"`
	Note   string   `yaml:"note"`
}

// ExampleSpec is a delivery as the provider would send it, before signing.
// {{id}} stands for the event id and {{now}} for the time in seconds.
type ExampleSpec struct {
	// Source is where the sender publishes the payload, or the members of it, from
	// which id, type, time and sequence are read. Without one, what is read rests on an
	// example of our own, and the list of providers says so.
	Source string `yaml:"source"`

	// Own are what no published payload shows all the same, of type, occurred_at and
	// sequence: it is read as in our own example.
	Own []string `yaml:"own"`

	Headers map[string]string `yaml:"headers"`
	Body    string            `yaml:"body"`
}

// Duration is a time span; [Off] switches off what it bounds.
type Duration time.Duration

// Off is the Duration written "none".
const Off Duration = -1

// Size is a number of bytes.
type Size int64
