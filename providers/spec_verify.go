package providers

// VerifySpec says how a request is authenticated.
type VerifySpec struct {
	// Family is hmac (a signature over parts of the request, also Standard Webhooks and its
	// ed25519), signature (the same with a public key in the source), static (a credential),
	// operation (a credential, an operation and an idempotency key), broker (the connection to the
	// broker from which the source consumes), none (nothing is proved, which the source must allow
	// explicitly), or the name of a scheme of package scheme.
	Family string `yaml:"family"`

	// Options contains a scheme's own options, by name. A setting of the same name overrides an
	// option.
	Options map[string][]string `yaml:"options"`

	// Require lists headers that must be as given, such as a version.
	Require []MatchSpec `yaml:"require"`

	// Authenticates says what a valid signature proves: body, part (some of the event), or origin
	// (only who sent it).
	Authenticates string `yaml:"authenticates"`

	Signature  SignatureSpec    `yaml:"signature"`
	Signed     []Part           `yaml:"signed"`
	Timestamp  TimestampSpec    `yaml:"timestamp"`
	Credential []CredentialSpec `yaml:"credential"`
	Key        KeySelectSpec    `yaml:"key"`
	Operation  OperationSpec    `yaml:"operation"`
}

// ModeSpec is another method with which the provider authenticates its requests. The first mode
// whose headers match applies, otherwise the provider's own verify. A request is never tried with
// two methods.
type ModeSpec struct {
	Name string `yaml:"name"`

	// When lists headers that must be present, or equal.
	When []MatchSpec `yaml:"when"`

	// ProvedBy says who confirmed the rules of this mode, in the words of the provider's own
	// proved_by.
	ProvedBy string `yaml:"proved_by"`

	Verify VerifySpec `yaml:"verify"`
}

// SignatureSpec says where the signatures are and how they are encoded.
type SignatureSpec struct {
	// From is header (the default), all-headers (each of the headers has its own signature),
	// numbered-headers (a header's name ends in -N: X-Signature-N means X-Signature-1 and so on),
	// json, form or query.
	From string `yaml:"from"`

	// Headers lists alternatives: the first that is present is used. A header that is present twice
	// is refused.
	Headers []string `yaml:"headers"`

	// Path is the JSON path, form field or query parameter if From is not a header.
	Path string `yaml:"path"`

	// Format is value (the default: prefix and one signature), list (labelled items), positional
	// (the time, then signatures) or groups (lists separated by spaces, each with its own time).
	Format string `yaml:"format"`

	// Prefix must precede a value, unless PrefixOptional is set.
	Prefix         string `yaml:"prefix"`
	PrefixOptional bool   `yaml:"prefix_optional"`

	// Suffix must follow a value, such as a bracket that closes one of Prefix.
	Suffix string `yaml:"suffix"`

	// Repeats allows a header to be present several times. Each value is a signature, and one that
	// matches is enough.
	Repeats bool `yaml:"repeats"`

	// Separator separates the items of a list, and Assign an item's label from its value. Spaces
	// around items are ignored. A list without a separator is one item.
	Separator string `yaml:"separator"`
	Assign    string `yaml:"assign"`

	// TimestampLabel is the label of the item that contains the time.
	TimestampLabel string `yaml:"timestamp_label"`

	// Schemes lists the supported signatures. Items with any other label are ignored.
	Schemes []SchemeSpec `yaml:"schemes"`
}

// SchemeSpec is one kind of signature and its keys.
type SchemeSpec struct {
	// Label is the item's label in a list. It is empty for a value.
	Label string `yaml:"label"`

	// Algorithm is hmac-sha1, hmac-sha256, hmac-sha384, hmac-sha512, ed25519, or rsa-sha1 or
	// rsa-sha256 (PKCS #1 v1.5), ecdsa-p256-sha256 (DER), or a plain digest with the secret among
	// the signed parts: sha1 or sha256.
	Algorithm string `yaml:"algorithm"`

	// Encoding is that of the signature: hex, base64, base64-lenient (padding optional), base64url
	// (unpadded) or base64url-lenient (padding optional).
	Encoding string `yaml:"encoding"`

	// KeyPrefix precedes the secret and is removed before decoding. With KeyPrefixRequired, a
	// secret without it does not belong to this scheme.
	KeyPrefix         string `yaml:"key_prefix"`
	KeyPrefixRequired bool   `yaml:"key_prefix_required"`

	// Key says how the secret is decoded: text (the default: unchanged), hex, base64,
	// base64-lenient, base64url (padding optional), after-colon (the text after the first colon, if
	// there is one), nfkd (the text in that Unicode normal form), or for public keys spki (base64)
	// or pem.
	Key string `yaml:"key"`

	// PrivatePrefix precedes the private key of an asymmetric scheme, which can only sign.
	PrivatePrefix string `yaml:"private_prefix"`
}

// KeySelectSpec says which secret applies if the request names one. By default all secrets are
// tried.
type KeySelectSpec struct {
	// Select is all (the default), header (the header Name contains the key's id, and a secret is
	// written id=key), claim or path.
	Select string `yaml:"select"`
	Name   string `yaml:"name"`
}

// Part is a piece of the signed bytes: one of the words body, body-base64, body-sha256 (the
// digest's 32 bytes), body-sha256-hex (the digest in lower-case letters), document (the JSON
// document: the body, or the field form_json of a form), timestamp, method, url, path, query,
// form-sorted (names and values of a form, sorted by name), secret (only with plain digests), or
// one of literal, header, form, json, query.
type Part struct {
	Word    string   `yaml:"-"`
	Literal string   `yaml:"literal"`
	Header  []string `yaml:"header"`
	Form    string   `yaml:"form"`
	JSON    string   `yaml:"json"`
	Query   string   `yaml:"query"`
}

// TimestampSpec says where the signed time is and how far it may differ from the time of receipt.
type TimestampSpec struct {
	// From is none (the default), header, signature (the item labelled timestamp_label), json,
	// form, or scheme if the family is a scheme that reads the time.
	From   string   `yaml:"from"`
	Header []string `yaml:"header"`
	Path   string   `yaml:"path"`

	// Unit is s (the default), ms, us, ns, rfc3339 or datetime (ISO 8601, in UTC if it has no
	// zone).
	Unit string `yaml:"unit"`

	// Past and Future are how far the time may be before or after the receipt. They default to 300
	// s. "none" disables the limit.
	Past   Duration `yaml:"past"`
	Future Duration `yaml:"future"`

	// Unsigned says that the signature does not cover the time. The time must be present and valid,
	// but it is not compared with the time of receipt.
	Unsigned bool `yaml:"unsigned"`

	// SDK notes where the provider's own libraries check less, such as only the past.
	SDK string `yaml:"sdk"`

	// Source is where the sender documents how old a delivery may be, or that each attempt has its
	// own time, so that refusing an old delivery loses no retry.
	Source string `yaml:"source"`
}

// CredentialSpec is a place of a static credential.
type CredentialSpec struct {
	// Scheme is bearer, basic (the secret is user:password), header, query (the parameter Name),
	// json (the member at the path Name), form (the field Name) or item. A credential in the
	// content is recorded with it.
	Scheme string `yaml:"scheme"`

	// Header defaults to Authorization.
	Header string `yaml:"header"`
	Name   string `yaml:"name"`

	// Prefix is the text before the secret in a header, such as "Token ".
	Prefix string `yaml:"prefix"`
}

// OperationSpec names the headers of family operation.
type OperationSpec struct {
	// Key is the header of the idempotency key, Name that of the operation.
	Key  string `yaml:"key"`
	Name string `yaml:"name"`
}
