package providers

// HandshakeSpec describes a request that tests the endpoint, and its answer.
type HandshakeSpec struct {
	Name   string      `yaml:"name"`
	Method string      `yaml:"method"`
	Match  []MatchSpec `yaml:"match"`

	// Verify is signature (as for a delivery), query-signature (the signature of a delivery, over
	// the query string), token (the value of Token equals a secret), none, open (like none, but the
	// body may be read, up to 4 KiB), bootstrap (the request delivers a new secret at Token, which
	// Oncegate answers and shows to the operator but never trusts) or bootstrap-signed (the same,
	// and the request is signed with that secret).
	Verify string `yaml:"verify"`
	Token  Field  `yaml:"token"`

	// SecretName compares the token only with the secrets of this name. These secrets are then
	// never used as keys of deliveries, because a token in an address ends up in logs.
	SecretName string `yaml:"secret_name"`

	// Setting compares the token with this setting of the source instead of its secrets.
	Setting string `yaml:"setting"`

	Respond AnswerSpec `yaml:"respond"`

	// Refuse is the answer to a handshake that is not authentic. By default it is the answer to a
	// refused delivery.
	Refuse AnswerSpec `yaml:"refuse"`
}

// MatchSpec is a condition: the field is present and, if Equals is set, equal to it.
type MatchSpec struct {
	Header string `yaml:"header"`
	JSON   string `yaml:"json"`
	Form   string `yaml:"form"`
	Query  string `yaml:"query"`
	Equals string `yaml:"equals"`

	// Absent reverses the condition: the field must be absent.
	Absent bool `yaml:"absent"`
}

// AnswerSpec is an answer. Body and header values are templates: {{event}} and {{status}} in an
// acknowledgement; {{json path}}, {{query name}}, {{header name}}, and hmac_hex or hmac_base64
// before one of these, in a handshake. In application/json, inserted values are escaped. A value to
// be signed must not contain { or [, and the deliveries of such a provider must be JSON objects or
// arrays signed by family hmac. A handshake's answer can therefore never be the signature of a
// delivery.
type AnswerSpec struct {
	Status      int               `yaml:"status"`
	ContentType string            `yaml:"content_type"`
	Body        string            `yaml:"body"`
	Headers     map[string]string `yaml:"headers"`

	// Empty sends an answer without a body.
	Empty bool `yaml:"empty"`
}
