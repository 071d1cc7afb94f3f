package providers

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
