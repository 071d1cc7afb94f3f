package providers

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
