package providers

// IdentitySpec says how the event id is determined.
type IdentitySpec struct {
	// Mode is id (the default: the first candidate that is present), digest (of the whole payload
	// without its volatile members), hash (of named fields that the sender documents as unique
	// together) or level (identical payloads are different events: every verified delivery is a
	// separate event). If id or hash finds nothing, the digest is the id, so no verified event is
	// lost because it has no id.
	Mode string `yaml:"mode"`

	// Candidates lists the places of the sender's documented event id. The first that is present is
	// used.
	Candidates []Field `yaml:"candidates"`

	// Hash lists the fields of mode hash. All of them are required.
	Hash []Field `yaml:"hash"`

	// UniqueSource is where the sender documents that the fields of a hash, or those that a
	// candidate joins, are unique together. It is required for both, because two events with equal
	// fields would otherwise become one, and the second would be lost.
	UniqueSource string `yaml:"unique_source"`

	// LevelWhen lists conditions. If an event has no id and meets one of them, it is treated as in
	// mode level, because events of its kind have identical content.
	LevelWhen []MatchSpec `yaml:"level_when"`

	// Transmission lists the places, outside the payload, of a signed value that the sender chooses each time it
	// sends an event, and keeps in its retries. An event is new only if both its id and its transmission are. Use it where the
	// signature covers the transmission and not all of the payload: the id alone could be forged, and with the
	// transmission alone as id a resend would be a second event.
	Transmission []Field `yaml:"transmission"`

	// LevelSetting is the name of a setting with which a source chooses that every verified delivery
	// is a new event, as in mode level. Its value is then event. Use it for senders whose
	// repeats some receivers need and others do not.
	LevelSetting string `yaml:"level_setting"`

	// With lists fields outside the payload that distinguish events and stay the same over retries,
	// such as a header with the topic. The digest includes those that are present. It always
	// includes the fields outside the payload from which the type is read.
	With []Field `yaml:"with"`
}

// Field is the place of a value: one of header, json, parent, envelope, form, query, literal, or
// several joined.
type Field struct {
	Header   string `yaml:"header"`
	JSON     string `yaml:"json"`
	Parent   string `yaml:"parent"`
	Envelope string `yaml:"envelope"`
	Form     string `yaml:"form"`
	Query    string `yaml:"query"`
	Literal  string `yaml:"literal"`

	// If is a JSON path of the event that must be present for the field to be present. Use it with a
	// literal for a sender that marks the kind of an event by the presence of a member.
	If string `yaml:"if"`

	// PlusIndex adds the event's index in its batch to a number.
	PlusIndex bool `yaml:"plus_index"`

	// Join combines fields with With between them. All of them must be present except the optional
	// ones. In ids, the parts are escaped so that different parts never result in the same text.
	Join     []Field `yaml:"join"`
	With     string  `yaml:"with"`
	Optional bool    `yaml:"optional"`

	// Unit is the unit of a time: s, ms, us, ns, rfc3339 or datetime (ISO 8601, in UTC if it has no
	// zone, or the date format of a mail or an HTTP header).
	Unit string `yaml:"unit"`
}

// SequenceSpec says to which stream an event belongs, and its position in the stream.
type SequenceSpec struct {
	// Kind is none (the default), contiguous, version or time.
	Kind       string              `yaml:"kind"`
	Candidates []SequenceCandidate `yaml:"candidates"`
}

// SequenceCandidate is a pair of key and number. The first candidate with both is used.
type SequenceCandidate struct {
	Key    Field `yaml:"key"`
	Number Field `yaml:"number"`
}
