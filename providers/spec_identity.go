package providers

// IdentitySpec says what the event id is.
type IdentitySpec struct {
	// Mode is id (the default: the first candidate that is there), digest (of the
	// whole payload without its volatile members), hash (of named fields that the
	// sender documents as unique together) or level (identical payloads are different
	// events: every verified delivery is an event of its own). Where id or hash find
	// nothing, the digest is the id: no verified event is lost for want of one.
	Mode string `yaml:"mode"`

	// Candidates are where the sender's documented event id is read: the first that
	// is there counts.
	Candidates []Field `yaml:"candidates"`

	// Hash are the fields of mode hash. Every one of them is required.
	Hash []Field `yaml:"hash"`

	// UniqueSource is where the sender documents that the fields of a hash, or those
	// that a candidate joins, are unique together. Without it neither is taken: two
	// events that agree in chosen fields would be one, and the second lost.
	UniqueSource string `yaml:"unique_source"`

	// LevelWhen are conditions, of which one is enough, under which an event that has
	// no id is as in mode level: its kind says the same each time.
	LevelWhen []MatchSpec `yaml:"level_when"`

	// With are fields beside the payload that tell events apart and stay the same
	// over retries, such as a header that names the topic. They are joined with the
	// digest; those that are absent are left out. What the type is read from is joined
	// in any case.
	With []Field `yaml:"with"`
}

// Field is where a value is read: one of header, json, parent, envelope, form,
// query, literal, or several joined.
type Field struct {
	Header   string `yaml:"header"`
	JSON     string `yaml:"json"`
	Parent   string `yaml:"parent"`
	Envelope string `yaml:"envelope"`
	Form     string `yaml:"form"`
	Query    string `yaml:"query"`
	Literal  string `yaml:"literal"`

	// If is a JSON path of the event that must be there, or else the field is not:
	// it makes a literal of the key that a sender tells its events apart by.
	If string `yaml:"if"`

	// PlusIndex adds the event's place in its batch to a number.
	PlusIndex bool `yaml:"plus_index"`

	// Join puts fields together with With between them; all must be present but
	// the optional ones. In ids the parts are escaped so that no two joins meet.
	Join     []Field `yaml:"join"`
	With     string  `yaml:"with"`
	Optional bool    `yaml:"optional"`

	// Unit of a time: s, ms, us, ns, rfc3339 or datetime (ISO 8601, UTC where no
	// zone is written, or the date of a mail or an HTTP header).
	Unit string `yaml:"unit"`
}

// SequenceSpec says which stream an event belongs to, and where in it it is.
type SequenceSpec struct {
	// Kind is none (the default), contiguous, version or time.
	Kind       string              `yaml:"kind"`
	Candidates []SequenceCandidate `yaml:"candidates"`
}

// SequenceCandidate is a pair of key and number; the first with both counts.
type SequenceCandidate struct {
	Key    Field `yaml:"key"`
	Number Field `yaml:"number"`
}
