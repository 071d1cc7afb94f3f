package effecttest

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs/effect"
)

// MailTo configures the sender of mail under test.
type MailTo struct {
	// Server is smtp://host:port or smtps://host:port.
	Server string
	// Plain sends unencrypted. If it is false, the sender logs in with [Password].
	Plain    bool
	TLS      *tls.Config
	Resolver *net.Resolver
}

// NewMail makes a sender of mail. render renders the message for one recipient as the sender's route does.
type NewMail func(tb testing.TB, to MailTo) (sender effect.Sender, render func(call *effect.Call, recipient string) ([]byte, error))

// stages are the stages of a conversation, in order. about says whether a permanent refusal is about the message.
var stages = []struct {
	name  string
	about bool
	login bool // only where the sender logs in
}{
	{"greeting", false, false}, {"EHLO", false, true}, {"STARTTLS", false, true}, {"AUTH", false, true}, {"MAIL", true, false}, {"RCPT", true, false}, {"DATA", true, false},
}

// Mail returns mail servers. A message counts as taken when it was sent completely. Before the final dot nothing
// has happened. After it only the server's answer decides.
func Mail(build NewMail) Kind {
	k := Kind{Secrets: secrets()}
	brief := 500 * time.Millisecond // nothing has happened by then, at any stage
	for _, s := range stages {
		refused := effect.Retry
		topic := Later
		if s.about {
			refused, topic = effect.Dead, Refuses
		}
		for say, c := range map[string]Case{
			"drop":          {Topic: BreaksBefore, Want: effect.Retry},
			"reset":         {Topic: BreaksBefore, Want: effect.Retry},
			"half":          {Topic: HalfReply, Want: effect.Retry},
			"what?":         {Topic: HalfReply, Want: effect.Retry},
			"stall":         {Topic: StallsBefore, Want: effect.Retry, Reason: reasons.Timeout, Limit: brief},
			"slow":          {Topic: SlowReply, Want: effect.Retry, Reason: reasons.Timeout, Limit: brief},
			"endless":       {Topic: HugeReply, Want: effect.Retry},
			"endless lines": {Topic: HugeReply, Want: effect.Retry},
			"421 later":     {Topic: Later, Want: effect.Retry},
			"451 later":     {Topic: Later, Want: effect.Retry},
			"550 no":        {Topic: topic, Want: refused},
		} {
			if say == "421 later" || say == "451 later" || say == "550 no" {
				c.Code = say[:3]
			}
			if s.name == "EHLO" && c.Code != "" {
				c.Code, c.Reason = "", reasons.TLS // an older greeting has no STARTTLS
			}
			if s.name == "STARTTLS" {
				c.Reason = ""
			}
			c.Name, c.Start = s.name+" "+say, spoken(build, MailScript{s.name: say}, !s.login, nil)
			k.Cases = append(k.Cases, c)
		}
	}
	k.Cases = append(k.Cases, messageCases(build)...)
	return mailAddresses(build, k)
}

// messageCases are about the message and the replies after it.
func messageCases(build NewMail) []Case {
	var out []Case
	brief := 2 * time.Second // everything before the stall must fit into it
	for _, c := range []Case{
		{Topic: Succeeds, Name: "250 yes", Want: effect.Done, Code: "250", Taken: 1},
		{Topic: Succeeds, Name: "250 yes\r\n250 yes", Want: effect.Done, Taken: 1},
		{Topic: Succeeds, Name: "250-yes\r\n250 yes", Want: effect.Done, Taken: 1},
		{Topic: Refuses, Name: "550 no", Want: effect.Dead, Code: "550", Taken: 1},
		// RFC 5321, 4.2.1: after a 4yz or a 5yz reply "the requested action did not occur", even if the whole
		// message was sent.
		{Topic: Later, Name: "451 later", Want: effect.Retry, Code: "451", Taken: 1},
		{Topic: Later, Name: "421 closing", Want: effect.Retry, Code: "421", Taken: 1},
		{Topic: BreaksAfter, Name: "drop", Want: effect.Unknown, Taken: 1},
		{Topic: BreaksAfter, Name: "reset", Want: effect.Unknown, Taken: 1},
		{Topic: AnswersAfter, Name: "354 more", Want: effect.Unknown, Taken: 1},
		{Topic: StallsAfter, Name: "stall", Want: effect.Unknown, Reason: reasons.Timeout, Taken: 1, Limit: brief},
		{Topic: SlowReply, Name: "slow", Want: effect.Unknown, Reason: reasons.Timeout, Taken: 1, Limit: brief},
		{Topic: HalfReply, Name: "half", Want: effect.Unknown, Taken: 1},
		{Topic: HalfReply, Name: "25", Want: effect.Unknown, Taken: 1},
		{Topic: HalfReply, Name: "what?", Want: effect.Unknown, Taken: 1},
		{Topic: HugeReply, Name: "endless", Want: effect.Unknown, Taken: 1},
		{Topic: HugeReply, Name: "endless lines", Want: effect.Unknown, Taken: 1},
	} {
		c.Start = spoken(build, MailScript{"dot": c.Name}, true, nil)
		c.Name = "after the final dot " + c.Name
		out = append(out, c)
	}
	// RFC 4954, 6: 530 to 538 are about the login and not about the message, which is sent once the login works.
	// The codes next to them refuse the message.
	for _, stage := range []string{"MAIL", "RCPT", "DATA", "dot"} {
		taken := 0
		if stage == "dot" {
			taken = 1
		}
		for _, say := range []string{"530 5.7.0 Authentication required", "535 5.7.8 no", "538 5.7.11 no"} {
			out = append(out, Case{Topic: Later, Name: stage + " " + say, Want: effect.Retry, Reason: reasons.Mail5xx, Code: say[:3], Taken: taken, Start: spoken(build, MailScript{stage: say}, true, nil)})
		}
		for _, say := range []string{"529 no", "539 no", "500 no", "599 no"} {
			out = append(out, Case{Topic: Refuses, Name: stage + " " + say, Want: effect.Dead, Reason: reasons.Mail5xx, Code: say[:3], Taken: taken, Start: spoken(build, MailScript{stage: say}, true, nil)})
		}
		for _, say := range []string{"499 later", "400 later"} {
			out = append(out, Case{Topic: Later, Name: stage + " " + say, Want: effect.Retry, Reason: reasons.Mail4xx, Code: say[:3], Taken: taken, Start: spoken(build, MailScript{stage: say}, true, nil)})
		}
	}
	// The message is longer than the buffers, so that the sender notices the cut before the dot.
	long := func(c *effect.Call) {
		c.Rendered = append(c.Rendered, []byte(strings.Repeat(strings.Repeat("x", 70)+"\r\n", 200_000))...)
	}
	server := func(tb testing.TB) (*tls.Config, *tls.Config) { return certificate(tb) }
	return append(out,
		Case{Topic: BreaksBefore, Name: "in the middle of the message", Want: effect.Retry, Start: spoken(build, MailScript{"message": "drop"}, true, long)},
		Case{Topic: StallsAfter, Name: "in the middle of the message", Want: effect.Unknown, Limit: brief, Start: spoken(build, MailScript{"message": "stall"}, true, nil)},
		Case{Topic: Secrets, Name: "of the login", Want: effect.Retry, Code: "535", Start: spoken(build, MailScript{"AUTH": "echo"}, false, nil)},
		Case{Topic: Secrets, Name: "of the login, in the clear", Want: effect.Retry, Code: "535", Start: spoken(build, MailScript{"AUTH": "535 not with " + Password}, false, nil)},
		Case{Topic: Secrets, Name: "is what no row can hold", Want: effect.Dead, Code: "550", Start: spoken(build, MailScript{"RCPT": "550 \x00\xff" + pad(3000)}, true, nil)},
		Case{Topic: Repeats, Name: "Message-ID, Date, boundary and all", Want: effect.Retry, Code: "451", Taken: 1, Start: spoken(build, MailScript{"dot": "451 later"}, true, nil)},
		// A reply that follows the one to DATA before the message was sent is not an answer to the message, so the
		// message is neither done nor refused.
		Case{Topic: HalfReply, Name: "DATA is answered twice", Want: effect.Retry, Start: spoken(build, MailScript{"DATA": "354 go on\r\n354 go on"}, true, nil)},
		Case{Topic: HalfReply, Name: "the message is taken before it is sent", Want: effect.Retry, Start: spoken(build, MailScript{"DATA": "354 go on\r\n250 queued"}, true, nil)},
		Case{Topic: HalfReply, Name: "the message is refused before it is sent", Want: effect.Retry, Start: spoken(build, MailScript{"DATA": "354 go on\r\n451 later"}, true, nil)},
		Case{Topic: Succeeds, Name: "STARTTLS and a login", Want: effect.Done, Taken: 1, Start: spoken(build, nil, false, nil)},
		Case{Topic: Succeeds, Name: "TLS from the first byte", Want: effect.Done, Taken: 1, Start: securely(build, server, nil)},
		Case{Topic: BreaksBefore, Name: "the certificate of a stranger", Want: effect.Retry, Reason: reasons.TLS, Start: securely(build, server, &tls.Config{MinVersion: tls.VersionTLS12})},
		Case{Topic: BreaksBefore, Name: "STARTTLS is not offered", Want: effect.Retry, Reason: reasons.TLS, Start: func(tb testing.TB) Trial {
			s := NewMailServer(tb, nil, nil, false)
			return mailTrial(tb, build, MailTo{Server: "smtp://" + s.Address}, s, nil)
		}},
		Case{Topic: BreaksBefore, Name: "the certificate of a stranger after STARTTLS", Want: effect.Retry, Reason: reasons.TLS, Start: func(tb testing.TB) Trial {
			own, _ := certificate(tb)
			s := NewMailServer(tb, nil, own, false)
			return mailTrial(tb, build, MailTo{Server: "smtp://" + s.Address}, s, nil)
		}},
	)
}

// spoken connects a sender to a server that follows the script.
func spoken(build NewMail, script MailScript, plain bool, change func(*effect.Call)) func(tb testing.TB) Trial {
	return func(tb testing.TB) Trial {
		if plain {
			s := NewMailServer(tb, script, nil, false)
			return mailTrial(tb, build, MailTo{Server: "smtp://" + s.Address, Plain: true}, s, change)
		}
		own, trust := certificate(tb)
		s := NewMailServer(tb, script, own, false)
		return mailTrial(tb, build, MailTo{Server: "smtp://" + s.Address, TLS: trust}, s, change)
	}
}

// securely uses TLS from the first byte. If trust is nil, the client trusts the server's certificate.
func securely(build NewMail, server func(testing.TB) (*tls.Config, *tls.Config), trust *tls.Config) func(tb testing.TB) Trial {
	return func(tb testing.TB) Trial {
		own, right := server(tb)
		if trust != nil {
			right = trust
		}
		s := NewMailServer(tb, nil, own, true)
		return mailTrial(tb, build, MailTo{Server: "smtps://" + s.Address, TLS: right}, s, nil)
	}
}

func mailTrial(tb testing.TB, build NewMail, to MailTo, server *MailServer, change func(*effect.Call)) Trial {
	tb.Helper()
	sender, render := build(tb, to)
	return Trial{
		Attempt: func(ctx context.Context, number int) effect.Result {
			call := Call(number)
			var err error
			// The message is rendered again each time, to show that every rendering is the same.
			if call.Rendered, err = render(call, "Ann <ann@example.com>"); err != nil {
				tb.Fatal(err)
			}
			if change != nil {
				change(call)
			}
			return sender.Send(ctx, call)
		},
		Taken: func() []string {
			if server == nil {
				return nil
			}
			return server.Sent()
		},
	}
}

// mailAddresses adds the cases of a server that cannot be reached.
func mailAddresses(build NewMail, k Kind) Kind {
	for _, address := range forbiddenAddresses() {
		k.Cases = append(k.Cases, Case{Topic: Forbidden, Name: address, Want: effect.Retry, Reason: reasons.Address, Start: func(tb testing.TB) Trial {
			return mailTrial(tb, build, MailTo{Server: "smtp://" + address + ":25", Plain: true}, nil, nil)
		}})
	}
	k.Cases = append(k.Cases,
		Case{Topic: Forbidden, Name: "a name that has become private", Want: effect.Retry, Reason: reasons.Address, Start: func(tb testing.TB) Trial {
			s := NewMailServer(tb, nil, nil, false)
			return mailTrial(tb, build, MailTo{Server: named("smtp://" + s.Address), Plain: true, Resolver: rebinding(tb)}, s, nil)
		}},
		Case{Topic: Unreachable, Name: "nobody listens", Want: effect.Retry, Reason: reasons.Connect, Start: func(tb testing.TB) Trial {
			return mailTrial(tb, build, MailTo{Server: "smtp://" + nobody(tb), Plain: true}, nil, nil)
		}},
	)
	return k
}
