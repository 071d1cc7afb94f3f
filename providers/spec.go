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

// VerifySpec says how a request is authenticated.
type VerifySpec struct {
	// Family is hmac (a signature over parts of the request, also Standard
	// Webhooks and its ed25519), signature (the same, where the source holds a
	// public key), static (a credential), operation (a credential, an operation and
	// an idempotency key), none (nothing is proved: the source must say so), or the
	// name of a scheme of package scheme.
	Family string `yaml:"family"`

	// Options are a scheme's own, by name. A setting of the same name stands before.
	Options map[string][]string `yaml:"options"`

	// Require are headers that must be as given, such as a version.
	Require []MatchSpec `yaml:"require"`

	// Authenticates says what a valid signature proves: body, part (some of the
	// event), or origin (only who sent it).
	Authenticates string `yaml:"authenticates"`

	Signature  SignatureSpec    `yaml:"signature"`
	Signed     []Part           `yaml:"signed"`
	Timestamp  TimestampSpec    `yaml:"timestamp"`
	Credential []CredentialSpec `yaml:"credential"`
	Key        KeySelectSpec    `yaml:"key"`
	Operation  OperationSpec    `yaml:"operation"`
}

// ModeSpec is another way in which the provider proves its requests. The first
// whose headers are there counts, otherwise the provider's own verify; one
// request is never tried in two ways.
type ModeSpec struct {
	Name string `yaml:"name"`

	// When are headers that must be there, or equal.
	When []MatchSpec `yaml:"when"`

	Verify VerifySpec `yaml:"verify"`
}

// SignatureSpec says where the signatures are and how they are written.
type SignatureSpec struct {
	// From is header (the default), all-headers (each of the headers has a
	// signature of its own), numbered-headers (a header's name ends in -N:
	// X-Signature-N stands for X-Signature-1 and so on), json, form or query.
	From string `yaml:"from"`

	// Headers are alternatives: the first that is present is the one that counts.
	// One that is present twice is refused.
	Headers []string `yaml:"headers"`

	// Path is the JSON path, form field or query parameter of the other sources.
	Path string `yaml:"path"`

	// Format is value (the default: prefix and one signature), list (labelled
	// items), positional (the time, then signatures) or groups (lists separated by
	// spaces, each with a time of its own).
	Format string `yaml:"format"`

	// Prefix must precede a value, unless it is PrefixOptional.
	Prefix         string `yaml:"prefix"`
	PrefixOptional bool   `yaml:"prefix_optional"`

	// Repeats takes a header that is present several times: each is a signature,
	// and one that matches is enough.
	Repeats bool `yaml:"repeats"`

	// Separator stands between the items of a list, Assign between an item's
	// label and its value. Spaces around items are ignored. A list without a
	// separator is one item.
	Separator string `yaml:"separator"`
	Assign    string `yaml:"assign"`

	// TimestampLabel is the label of the item that holds the time.
	TimestampLabel string `yaml:"timestamp_label"`

	// Schemes are the signatures understood; every other label is ignored.
	Schemes []SchemeSpec `yaml:"schemes"`
}

// SchemeSpec is one kind of signature and the keys that make it.
type SchemeSpec struct {
	// Label is the item's label in a list; empty for a value.
	Label string `yaml:"label"`

	// Algorithm is hmac-sha1, hmac-sha256, hmac-sha384, hmac-sha512, ed25519, or
	// rsa-sha1 or rsa-sha256 (PKCS #1 v1.5), ecdsa-p256-sha256 (DER), or a plain
	// digest with the secret among the signed parts: sha1 or sha256.
	Algorithm string `yaml:"algorithm"`

	// Encoding of the signature: hex, base64, base64-lenient (padding optional),
	// base64url (unpadded) or base64url-lenient (padding optional).
	Encoding string `yaml:"encoding"`

	// KeyPrefix precedes the secret and is taken off; with KeyPrefixRequired a
	// secret without it does not belong to this scheme.
	KeyPrefix         string `yaml:"key_prefix"`
	KeyPrefixRequired bool   `yaml:"key_prefix_required"`

	// Key decodes the secret: text (the default: as it is), hex, base64,
	// base64-lenient, base64url (padding optional), after-colon (what follows the
	// first colon, if there is one), nfkd (the text in that Unicode normal form), or
	// for public keys spki (base64) or pem.
	Key string `yaml:"key"`

	// PrivatePrefix precedes the private key of an asymmetric scheme, which only
	// signs.
	PrivatePrefix string `yaml:"private_prefix"`
}

// KeySelectSpec says which secret applies where the request names it; empty
// tries all.
type KeySelectSpec struct {
	// Select is all (the default), header (the header Name holds the key's id, and
	// a secret is written id=key), claim or path.
	Select string `yaml:"select"`
	Name   string `yaml:"name"`
}

// Part is a piece of the signed bytes: one of the words body, body-base64,
// body-sha256 (the digest's 32 bytes), body-sha256-hex (the digest in small letters),
// document (the JSON document: the body, or the field form_json of a form),
// timestamp, method, url, path, query, form-sorted (names and values of a form,
// sorted by name), secret (only with plain digests), or one of literal, header,
// form, json, query.
type Part struct {
	Word    string   `yaml:"-"`
	Literal string   `yaml:"literal"`
	Header  []string `yaml:"header"`
	Form    string   `yaml:"form"`
	JSON    string   `yaml:"json"`
	Query   string   `yaml:"query"`
}

// TimestampSpec says where the signed time is and how far it may be away.
type TimestampSpec struct {
	// From is none (the default), header, signature (the item labelled
	// timestamp_label), json, form, or scheme where the family is a scheme that finds it.
	From   string   `yaml:"from"`
	Header []string `yaml:"header"`
	Path   string   `yaml:"path"`

	// Unit is s (the default), ms, us, ns, rfc3339 or datetime (ISO 8601, UTC where
	// no zone is written).
	Unit string `yaml:"unit"`

	// Past and Future are how far the time may lie on either side of the receipt.
	// They default to 300 s; "none" switches a side off.
	Past   Duration `yaml:"past"`
	Future Duration `yaml:"future"`

	// Unsigned says that the signature does not cover the time: it is then read
	// by nobody.
	Unsigned bool `yaml:"unsigned"`

	// SDK notes where the provider's own libraries check less, such as only the past.
	SDK string `yaml:"sdk"`

	// Source is where the sender says how old a delivery may be, or that each try has
	// a time of its own, so that refusing an old one loses no retry.
	Source string `yaml:"source"`
}

// CredentialSpec is where a static credential is looked for.
type CredentialSpec struct {
	// Scheme is bearer, basic (the secret is user:password), header, query (the
	// parameter Name), json (the member at the path Name), form (the field Name) or
	// item. What stands in the content is recorded with it.
	Scheme string `yaml:"scheme"`

	// Header is Authorization unless given.
	Header string `yaml:"header"`
	Name   string `yaml:"name"`

	// Prefix is what stands before the secret in a header, such as "Token ".
	Prefix string `yaml:"prefix"`
}

// OperationSpec names the headers of family operation.
type OperationSpec struct {
	// Key is the header of the idempotency key, Name that of the operation.
	Key  string `yaml:"key"`
	Name string `yaml:"name"`
}

// BodySpec says what the body is, once it is verified.
type BodySpec struct {
	// Format is json (the default: anything else is unusable), any (fields are
	// read where there are any) or xml.
	Format string `yaml:"format"`

	// Form lets the body also be application/x-www-form-urlencoded; FormJSON is
	// the form field that then holds the JSON document.
	Form     bool   `yaml:"form"`
	FormJSON string `yaml:"form_json"`

	// Multipart lets the body also be multipart/form-data. Fields named form are
	// then read in its texts; its files are kept with the body and not read.
	Multipart bool `yaml:"multipart"`
}

// SplitSpec makes one delivery several events: all are recorded or none.
type SplitSpec struct {
	// JSON is the path of an array whose elements are the events; "entry.*.changes"
	// is the array changes in every element of the array entry, or the element
	// itself where it has none. Fields named json are then read in the event, those
	// named parent in the element around its array, those named envelope in the
	// body.
	JSON string `yaml:"json"`

	// Form is the form field that holds the JSON document which is split. Offset
	// and length of an event then count the form's encoded bytes.
	Form string `yaml:"form"`

	// Otherwise is what a body without that array is: one (the default: a single
	// event, read as a whole), lines (one JSON document a line), or
	// elements (the elements of the body, which is an array itself).
	Otherwise string `yaml:"otherwise"`

	// ContentType, if it is given, is the media type of the bodies that are split;
	// any other is one event.
	ContentType string `yaml:"content_type"`
}

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

// HandshakeSpec is a request that tests the endpoint, and its answer.
type HandshakeSpec struct {
	Name   string      `yaml:"name"`
	Method string      `yaml:"method"`
	Match  []MatchSpec `yaml:"match"`

	// Verify is signature (as a delivery), query-signature (the signature of a
	// delivery, over the query string), token (the value of Token equals a
	// secret), none, open (as none, and the body may be read, up to 4 KiB),
	// bootstrap (the request brings a new secret at Token, which is answered and
	// shown to the operator but never trusted by itself) or bootstrap-signed (the
	// same, where the request is signed with that secret).
	Verify string `yaml:"verify"`
	Token  Field  `yaml:"token"`

	// SecretName makes token look only at the secrets of this name, and keeps
	// them from ever being keys of deliveries: a token in an address ends up in
	// logs.
	SecretName string `yaml:"secret_name"`

	// Setting makes token look at this setting of the source, not at its secrets.
	Setting string `yaml:"setting"`

	Respond AnswerSpec `yaml:"respond"`

	// Refuse is the answer to a handshake that is not authentic, where it is not
	// that of a refused delivery.
	Refuse AnswerSpec `yaml:"refuse"`
}

// MatchSpec is a condition: the field is present and, if Equals is given, equal.
type MatchSpec struct {
	Header string `yaml:"header"`
	JSON   string `yaml:"json"`
	Form   string `yaml:"form"`
	Query  string `yaml:"query"`
	Equals string `yaml:"equals"`

	// Absent turns the condition round: the field must not be there.
	Absent bool `yaml:"absent"`
}

// AnswerSpec is an answer. Body and header values are templates: {{event}} and
// {{status}} in an acknowledgement; {{json path}}, {{query name}}, {{header
// name}}, and hmac_hex or hmac_base64 before one of these, in a handshake. In
// application/json, what is put in is escaped. What is signed may hold no { or [, and
// the deliveries of such a provider are JSON objects or arrays, signed by family hmac:
// no answer of a handshake can then be the signature of a delivery.
type AnswerSpec struct {
	Status      int               `yaml:"status"`
	ContentType string            `yaml:"content_type"`
	Body        string            `yaml:"body"`
	Headers     map[string]string `yaml:"headers"`

	// Empty is an answer without a body.
	Empty bool `yaml:"empty"`
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
