package publish

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/jobs/effect"
)

// Value returns the text that replaces one expression in a place. It must not be empty. Operators see its error, so it
// must not quote the event.
type Value func(call *effect.Call) (string, error)

// maxPlace bounds a place with its values, in bytes. AMQP allows 255 for a routing key (AMQP 0-9-1, short string), and
// Kafka 249 for the name of a topic.
const maxPlace = 255

// template is a place with expressions: a literal, then an expression and a literal for each value.
type template struct {
	literals, expressions []string
	values                []Value
}

// newTemplate parses the place of cfg.
func newTemplate(cfg *Config) (*template, error) {
	name := PlaceKey(cfg.Broker.Address.Kind)
	if cfg.Place == "" {
		if cfg.Broker.Address.Kind == broker.RabbitMQ && cfg.Within != "" {
			return &template{literals: []string{""}}, nil // a fanout exchange reads no routing key
		}
		return nil, fmt.Errorf("%s is missing", name)
	}
	literals, expressions, err := effect.SplitBraces(cfg.Place)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t := &template{literals: literals, expressions: expressions}
	if len(expressions) > 0 && cfg.Broker.Address.Kind == broker.Kafka {
		return nil, errors.New("topic: a topic has no expressions; messages of one sequence key go to one partition by themselves")
	}
	for _, text := range expressions {
		value := cfg.Values[text]
		if value == nil {
			return nil, fmt.Errorf("%s: an expression in braces has no value", name)
		}
		t.values = append(t.values, value)
	}
	return t, t.check(cfg.Broker.Address.Kind, name)
}

// check refuses literals that no message can be published to.
func (t *template) check(kind broker.Kind, name string) error {
	whole := strings.Join(t.literals, "x")
	switch {
	case len(whole) > maxPlace:
		return fmt.Errorf("%s is longer than %d bytes", name, maxPlace)
	case strings.ContainsFunc(whole, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return fmt.Errorf("%s must have no space, control or special character", name)
	case kind == broker.NATS && strings.ContainsAny(whole, "*>"):
		return fmt.Errorf("%s: a message is published to one subject, without * and >", name)
	case kind == broker.NATS && slices.Contains(strings.Split(whole, "."), ""):
		return fmt.Errorf("%s: every token between dots must have a name", name)
	}
	return nil
}

// fill returns the place for a call. The error names the expression and quotes nothing of the event.
func (t *template) fill(call *effect.Call) (string, error) {
	var b strings.Builder
	b.WriteString(t.literals[0])
	for i, value := range t.values {
		text, err := value(call)
		if err == nil && text == "" {
			err = errors.New("the value is empty")
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", t.expressions[i], err)
		}
		b.WriteString(token(text))
		b.WriteString(t.literals[i+1])
	}
	if b.Len() > maxPlace {
		return "", fmt.Errorf("the place would be longer than %d bytes", maxPlace)
	}
	return b.String(), nil
}

// token makes a value a part of one token: everything except letters, digits, hyphen and underscore is percent-encoded, so
// no value can add a token or a wildcard.
func token(value string) string {
	var b strings.Builder
	for i := range len(value) {
		switch c := value[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// PlaceKey returns the key of the configuration that names the place at a kind of broker.
func PlaceKey(kind broker.Kind) string {
	if kind == broker.Kafka {
		return "topic"
	}
	return "subject"
}

// Address implements [effect.Addresser]. It consists of the broker's address and the place.
func (s *Sender) Address(call *effect.Call) (string, error) {
	if len(s.place.expressions) == 0 {
		return "", nil
	}
	place, err := s.place.fill(call)
	if err != nil {
		return "", err
	}
	return s.cfg.Broker.Address.String() + " " + place, nil
}

// Reaches implements [effect.Addresser]. An address is reached if it shares a server with the target's, because clusters
// gain and lose servers.
func (s *Sender) Reaches(address string) bool {
	at, _, found := strings.Cut(address, " ")
	stored, _, _, err := broker.ParseAddress(at)
	if !found || err != nil || stored.Kind != s.cfg.Broker.Address.Kind || stored.VHost != s.cfg.Broker.Address.VHost {
		return false
	}
	return slices.ContainsFunc(stored.Hosts, func(host string) bool { return slices.Contains(s.cfg.Broker.Address.Hosts, host) })
}

// placeOf returns where a call is published.
func (s *Sender) placeOf(call *effect.Call) (string, error) {
	switch {
	case call.Address == "" && len(s.place.expressions) > 0:
		return "", errors.New("the place was not computed")
	case call.Address == "":
		return s.cfg.Place, nil
	case !s.Reaches(call.Address):
		return "", errOtherBroker
	}
	_, place, _ := strings.Cut(call.Address, " ")
	return place, nil
}
