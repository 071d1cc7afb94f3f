package effecttest

import (
	"crypto/x509"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/broker/faulttest"
	"github.com/oncegate/oncegate/internal/egress/egresstest"
	"github.com/oncegate/oncegate/jobs/effect"
)

// PublishTo configures the sender to a broker under test.
type PublishTo struct {
	URL, Place, Within string
	Username, Password string
	Resolver           *net.Resolver
	Roots              *x509.CertPool // nil is the system's
}

// NewPublish makes a sender to a broker.
type NewPublish func(tb testing.TB, to PublishTo) effect.Sender

// Broker is a kind of broker under test.
type Broker struct {
	Scheme string
	Start  func(tb testing.TB, o faulttest.Options) *faulttest.Server
}

// Brokers returns the brokers that a test can use. RabbitMQ is one of them if there is a server: see [faulttest.RabbitMQ].
func Brokers() []Broker {
	out := []Broker{{"kafka", faulttest.NewKafka}, {"nats", faulttest.NewNATS}}
	if faulttest.RabbitMQ() != "" {
		out = append(out, Broker{"amqp", faulttest.NewRabbitMQ})
	}
	return out
}

// Publish returns cases of a broker. The body of [Call] is not UTF-8, and every attempt must publish it byte for byte.
func Publish(build NewPublish, b Broker) Kind {
	k := Kind{Secrets: []string{faulttest.Password}, Without: map[Topic]string{}}
	add := func(topic Topic, name string, want effect.Outcome, reason string, taken int, limit time.Duration, o faulttest.Options, change func(*PublishTo, *effect.Call)) {
		k.Cases = append(k.Cases, Case{Topic: topic, Name: name, Want: want, Reason: reason, Taken: taken, Limit: limit, Start: published(build, b, o, change)})
	}
	fault := func(act faulttest.Act) faulttest.Options {
		return faulttest.Options{Fault: faulttest.Fault{Message: act}}
	}
	const brief = 2 * time.Second
	add(Succeeds, "acknowledged", effect.Done, "", 1, 0, faulttest.Options{}, nil)
	add(Succeeds, "with an account", effect.Done, "", 1, 0, faulttest.Options{Account: true}, withAccount(b))
	if b.Scheme != "amqp" { // the server of the suites has no certificate
		encrypted := faulttest.Options{TLS: true}
		add(Succeeds, "over TLS", effect.Done, "", 1, 0, encrypted, nil)
		add(Unreachable, "a certificate that nobody knows", effect.Retry, reasons.TLS, 0, 0, encrypted, func(to *PublishTo, _ *effect.Call) { to.Roots = nil })
	}
	add(Refuses, "too large", effect.Dead, reasons.TooLarge, 0, 0, faulttest.Options{}, func(_ *PublishTo, call *effect.Call) {
		call.Event.Body = make([]byte, faulttest.MaxMessage+1)
	})
	add(Later, "no such place", effect.Retry, reasons.Unroutable, 0, 0, faulttest.Options{Empty: true}, nil)
	k.Cases = append(k.Cases, wrongPassword(build, b))
	add(BreaksBefore, "instead of a greeting", effect.Retry, reasons.Connect, 0, 0, faulttest.Options{Fault: faulttest.Fault{Greeting: faulttest.Cut}}, nil)
	add(StallsBefore, "instead of a greeting", effect.Retry, "", 0, brief, faulttest.Options{Fault: faulttest.Fault{Greeting: faulttest.Stall}}, nil)
	add(BreaksAfter, "instead of an acknowledgement", effect.Unknown, "", 1, brief, fault(faulttest.Cut), nil)
	add(StallsAfter, "instead of an acknowledgement", effect.Unknown, "", 1, brief, fault(faulttest.Stall), nil)
	add(HalfReply, "half an acknowledgement", effect.Unknown, "", 1, brief, fault(faulttest.Half), nil)
	add(SlowReply, "drop by drop", effect.Unknown, "", 1, time.Second, fault(faulttest.Drip), nil)
	add(HugeReply, "no acknowledgement but junk", effect.Unknown, "", 1, brief, fault(faulttest.Junk), nil)
	switch b.Scheme {
	case "nats":
		add(Later, "a full stream", effect.Retry, reasons.BrokerRefused, 1, 0, faulttest.Options{Full: true}, nil)
		add(Refuses, "another stream", effect.Retry, reasons.Unroutable, 1, 0, faulttest.Options{}, func(to *PublishTo, _ *effect.Call) { to.Within = "bills" })
		k.Without[AnswersAfter] = "a stream that answers with an error has not stored the message"
	case "amqp":
		add(Refuses, "no such exchange", effect.Retry, reasons.Unroutable, 0, 0, faulttest.Options{}, func(to *PublishTo, _ *effect.Call) { to.Within = "bills" })
		k.Without[AnswersAfter] = "a server that answers with an error has not stored the message"
	default:
		k.Cases = append(k.Cases, afterAppend(build, b), rejected(build, b))
	}
	k.Cases = append(k.Cases, placeCases(build, b)...)
	k.Cases = append(k.Cases, Case{Topic: Repeats, Name: "message", Want: effect.Done, Taken: 1, Start: published(build, b, faulttest.Options{}, nil)})
	return k
}

// withAccount sets the account that the broker knows. RabbitMQ has its own for its own machine.
func withAccount(b Broker) func(*PublishTo, *effect.Call) {
	if b.Scheme == "amqp" {
		return func(to *PublishTo, _ *effect.Call) { to.Username, to.Password = "guest", "guest" }
	}
	return withPassword(faulttest.Password)
}

func withPassword(password string) func(*PublishTo, *effect.Call) {
	return func(to *PublishTo, _ *effect.Call) { to.Username, to.Password = faulttest.Username, password }
}

// wrongPassword returns the case of an account that the broker refuses.
func wrongPassword(build NewPublish, b Broker) Case {
	return Case{Topic: Secrets, Name: "a wrong password", Want: effect.Retry, Reason: reasons.BrokerRefused, Start: func(tb testing.TB) Trial {
		s := b.Start(tb, faulttest.Options{Account: true})
		if s.Kafka != nil { // it closes the connection, where Kafka answers with this error
			s.Kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.SASLAuthenticate}, Err: kerr.SaslAuthenticationFailed, Count: -1})
		}
		trial := trialAt(tb, build, s, withPassword(faulttest.Password+"x"))
		trial.Taken = func() []string { return nil }
		return trial
	}}
}

// published connects a sender to a broker.
func published(build NewPublish, b Broker, o faulttest.Options, change func(*PublishTo, *effect.Call)) func(tb testing.TB) Trial {
	return func(tb testing.TB) Trial {
		tb.Helper()
		return trialAt(tb, build, b.Start(tb, o), change)
	}
}

func trialAt(tb testing.TB, build NewPublish, s *faulttest.Server, change func(*PublishTo, *effect.Call)) Trial {
	tb.Helper()
	to := PublishTo{URL: s.URL, Place: s.Place, Within: s.Within, Roots: s.Roots}
	if change != nil {
		change(&to, Call(1))
	}
	return Trial{Attempt: attempts(build(tb, to), func(call *effect.Call) {
		if change != nil {
			change(new(PublishTo), call)
		}
	}), Taken: s.Messages}
}

// afterAppend has Kafka answer with the error that follows the storing of a message
// (https://kafka.apache.org/protocol#protocol_error_codes).
func afterAppend(build NewPublish, b Broker) Case {
	return Case{Topic: AnswersAfter, Name: "too few replicas after the append", Want: effect.Unknown, Taken: 1, Limit: 2 * time.Second, Start: func(tb testing.TB) Trial {
		s := b.Start(tb, faulttest.Options{})
		s.Kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicasAfterAppend, Count: -1})
		return trialAt(tb, build, s, nil)
	}}
}

// rejected has Kafka refuse a message for good, for want of a right.
func rejected(build NewPublish, b Broker) Case {
	return Case{Topic: Later, Name: "no right to the topic", Want: effect.Retry, Reason: reasons.BrokerRefused, Code: kerr.TopicAuthorizationFailed.Message, Start: func(tb testing.TB) Trial {
		s := b.Start(tb, faulttest.Options{})
		s.Kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.TopicAuthorizationFailed, Count: -1})
		return trialAt(tb, build, s, nil)
	}}
}

// placeCases returns the cases of servers that are not there or may not be used.
func placeCases(build NewPublish, b Broker) (out []Case) {
	at := func(topic Topic, name, reason string, to func(tb testing.TB) PublishTo) {
		out = append(out, Case{Topic: topic, Name: name, Want: effect.Retry, Reason: reason, Start: func(tb testing.TB) Trial {
			p := to(tb)
			p.Place = faulttest.Place
			return Trial{Attempt: attempts(build(tb, p), nil), Taken: func() []string { return nil }}
		}})
	}
	at(Unreachable, "nobody listens", reasons.Connect, func(tb testing.TB) PublishTo { return PublishTo{URL: b.Scheme + "://" + nobody(tb)} })
	at(Unreachable, "one of two servers is there", reasons.Connect, func(tb testing.TB) PublishTo {
		return PublishTo{URL: b.Scheme + "://" + nobody(tb) + "," + nobody(tb)}
	})
	at(Forbidden, "a name that changes", reasons.Address, func(tb testing.TB) PublishTo {
		return PublishTo{URL: b.Scheme + "://target.example.:4222", Resolver: egresstest.NewNameServer(tb, "10.1.2.3").Resolver()}
	})
	for _, address := range forbiddenAddresses() {
		at(Forbidden, address, reasons.Address, func(testing.TB) PublishTo { return PublishTo{URL: b.Scheme + "://" + address + ":4222"} })
	}
	return out
}

// CloudEvent returns the attributes of a published message, by their names, and its body. prefix begins the names of the
// headers of attributes.
func CloudEvent(tb testing.TB, message, prefix string) (attributes map[string]string, body string) {
	tb.Helper()
	head, body, found := strings.Cut(message, "\n\n")
	if !found {
		tb.Fatalf("no message: %q", message)
	}
	attributes = map[string]string{}
	for line := range strings.SplitSeq(head, "\n") {
		name, value, _ := strings.Cut(line, ": ")
		attributes[strings.TrimPrefix(name, prefix)] = value
	}
	return attributes, body
}
