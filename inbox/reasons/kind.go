package reasons

// Reasons that are not the target's fault.
const (
	// Render means that the request, message or statement could not be built for the
	// event.
	Render = "render_failed"
	// Mapping means that an expression of the route's map or statement failed for the
	// event.
	Mapping = "mapping_failed"
	// Stopped means that the process stopped during the attempt.
	Stopped = "stopped"
)

// The network.
const (
	// Address means that the target's address is private or special, and allow does not
	// permit it.
	Address = "address_refused"
	// DNS means that the target's host name was not resolved.
	DNS = "dns"
	// Connect means that the connection to the target was refused or timed out before
	// anything was sent.
	Connect = "connect"
	// TLS means that the TLS handshake with the target failed.
	TLS = "tls"
	// Timeout means that the target did not answer in time.
	Timeout = "timeout"
	// Connection means that the connection broke after something was sent.
	Connection = "connection_lost"
	// Reply means that the reply of the target is malformed.
	Reply = "reply_malformed"
)

// The answers of a target over HTTP.
const (
	// Informational means that the target answered with a final status 1xx.
	Informational = "status_1xx"
	// Redirect means that the target answered with a redirect, which is never followed.
	Redirect = "status_3xx"
	// Status408 means that the target answered 408.
	Status408 = "status_408"
	// Status409 means that the target answered 409.
	Status409 = "status_409"
	// Status410 means that the target answered 410.
	Status410 = "status_410"
	// Status425 means that the target answered 425.
	Status425 = "status_425"
	// Status429 means that the target answered 429.
	Status429 = "status_429"
	// Status4xx means that the target answered with another status 4xx.
	Status4xx = "status_4xx"
	// Status503 means that the target answered 503.
	Status503 = "status_503"
	// Status5xx means that the target answered with another status 5xx.
	Status5xx = "status_5xx"
)

// The answers of a mail server.
const (
	// Mail4xx means that the mail server refused the message for now (4yz).
	Mail4xx = "smtp_4xx"
	// Mail5xx means that the mail server refused the message for good (5yz).
	Mail5xx = "smtp_5xx"
)

// The answers of a message broker.
const (
	// Unroutable means that no topic, stream or queue of the broker takes the message.
	Unroutable = "unroutable"
	// TooLarge means that the message is larger than the broker takes.
	TooLarge = "message_too_large"
	// BrokerRefused means that the broker refused the message or the connection, because a right or room is missing.
	BrokerRefused = "broker_refused"
)

// The database, for effects inside it.
const (
	// Serialization means that the transaction could not be serialised.
	Serialization = "sql_serialization"
	// Deadlock means that the transaction was the victim of a deadlock.
	Deadlock = "sql_deadlock"
	// LockTimeout means that the statement waited too long for a lock.
	LockTimeout = "sql_lock_timeout"
	// SQLTimeout means that the statement took too long.
	SQLTimeout = "sql_timeout"
	// Unavailable means that the database or its connection was not available.
	Unavailable = "sql_unavailable"
	// SQL means that the statement failed with another error.
	SQL = "sql_error"
)

// The handlers' own.
const (
	// Handler means that the handler returned an error.
	Handler = "handler"
)

// All returns the reasons that kinds of effects return.
func All() []string {
	return []string{
		Render, Mapping, Stopped,
		Address, DNS, Connect, TLS, Timeout, Connection, Reply,
		Informational, Redirect, Status408, Status409, Status410, Status425, Status429, Status4xx, Status503, Status5xx,
		Mail4xx, Mail5xx,
		Unroutable, TooLarge, BrokerRefused,
		Serialization, Deadlock, LockTimeout, SQLTimeout, Unavailable, SQL,
		Handler,
	}
}
