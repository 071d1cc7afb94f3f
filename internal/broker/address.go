package broker

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/egress"
)

// Kind is the product that an address leads to.
type Kind string

// The kinds of broker.
const (
	Kafka    Kind = "kafka"
	NATS     Kind = "nats"
	RabbitMQ Kind = "rabbitmq"
)

// scheme is what the scheme of an address says.
type scheme struct {
	kind   Kind
	secure bool
	port   string
}

// schemes lists the schemes of addresses. "kafka+ssl" is what hosts of Kafka use for TLS.
var schemes = map[string]scheme{
	"kafka":     {Kafka, false, "9092"},
	"kafka+ssl": {Kafka, true, "9093"},
	"nats":      {NATS, false, "4222"},
	"tls":       {NATS, true, "4222"},
	"amqp":      {RabbitMQ, false, "5672"},
	"amqps":     {RabbitMQ, true, "5671"},
}

// Address is the parsed address of a broker. It contains no account.
type Address struct {
	Kind Kind

	// Secure means that connections use TLS.
	Secure bool

	// Hosts are the servers, each with its port.
	Hosts []string

	// VHost is the virtual host of RabbitMQ. It defaults to "/".
	VHost string

	scheme string
}

// ParseAddress parses an address such as "nats://a:4222,b:4222". The user and password in it are returned separately. Its
// errors do not quote the address, because it may contain a password.
func ParseAddress(text string) (a Address, user, password string, err error) {
	name, rest, found := strings.Cut(text, "://")
	s, known := schemes[name]
	if !found || !known {
		return a, "", "", errors.New("url: want kafka://, kafka+ssl://, nats://, tls://, amqp:// or amqps://, and a host")
	}
	a = Address{Kind: s.kind, Secure: s.secure, scheme: name}
	authority, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		info, perr := url.Parse(name[:1] + "://" + authority[:at] + "@host")
		if perr != nil || info.User == nil {
			return a, "", "", errors.New("url: the user and password cannot be read; percent-encode special characters, or use username and password")
		}
		user = info.User.Username()
		password, _ = info.User.Password()
		authority = authority[at+1:]
	}
	for host := range strings.SplitSeq(authority, ",") {
		at, herr := withPort(host, s.port)
		if herr != nil {
			return a, "", "", herr
		}
		a.Hosts = append(a.Hosts, at)
	}
	switch {
	case a.Kind == RabbitMQ:
		if a.VHost, err = url.PathUnescape(path); err != nil || strings.ContainsAny(path, "?#") {
			return a, "", "", errors.New("url: the virtual host cannot be read; percent-encode special characters")
		}
		if a.VHost == "" {
			a.VHost = "/"
		}
	case path != "" || strings.ContainsAny(rest, "?#"):
		return a, "", "", errors.New("url must have no path and no query")
	}
	return a, user, password, nil
}

// withPort returns a host with its port.
func withPort(host, port string) (string, error) {
	u, err := url.Parse("x://" + host)
	if err != nil || u.Hostname() == "" || u.Host != host {
		return "", errors.New("url: want a host, or several with commas between them, such as a:4222,b:4222")
	}
	if u.Port() != "" {
		port = u.Port()
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// String returns the address without an account.
func (a Address) String() string {
	if len(a.Hosts) == 0 {
		return ""
	}
	text := a.scheme + "://" + strings.Join(a.Hosts, ",")
	if a.Kind == RabbitMQ && a.VHost != "/" {
		text += "/" + url.PathEscape(a.VHost)
	}
	return text
}

// named returns the networks that the address itself writes out.
func (a Address) named() (out []netip.Prefix) {
	for _, at := range a.Hosts {
		host, _, _ := net.SplitHostPort(at)
		out = append(out, egress.Named(host)...)
	}
	return out
}

// SASLMechanisms returns the mechanisms by which an account can be proved to Kafka.
func SASLMechanisms() []string { return []string{"plain", "scram-sha-256", "scram-sha-512"} }

// check reports the first problem of the configuration.
func (c *Config) check() error {
	switch {
	case len(c.Address.Hosts) == 0:
		return errors.New("url is missing")
	case c.SASL != "" && c.Address.Kind != Kafka:
		return errors.New("sasl: only Kafka has it")
	case c.SASL != "" && !slices.Contains(SASLMechanisms(), c.SASL):
		return fmt.Errorf("sasl: want %s", strings.Join(SASLMechanisms(), ", "))
	case c.SASL != "" && c.Username == "":
		return errors.New("sasl needs username and password")
	case c.Username != "" && c.Password == "" || c.Username == "" && c.Password != "" && c.Address.Kind != NATS:
		return errors.New("username and password must be set together")
	case c.MaxMessage < 0:
		return errors.New("max_message must not be negative")
	case c.MaxMessage > 0 && c.Address.Kind != Kafka:
		return errors.New("max_message: only Kafka has it; other brokers tell their limits")
	}
	return nil
}
