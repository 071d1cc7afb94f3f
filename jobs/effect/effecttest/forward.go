package effecttest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/egress/egresstest"
	"github.com/oncegate/oncegate/jobs/effect"
)

// ForwardTo configures the sender over HTTP under test.
type ForwardTo struct {
	URL        string
	Idempotent bool
	// RetryOn are the statuses with which the target says that it has done nothing. nil is the
	// sender's default.
	RetryOn  []int
	Resolver *net.Resolver
}

// NewForward makes a sender to the target that signs with [Secret].
type NewForward func(tb testing.TB, to ForwardTo) effect.Sender

// Forward returns targets over HTTP. keyHeader is the header of the idempotency key.
func Forward(build NewForward, keyHeader string) Kind {
	k := Kind{Secrets: secrets()}
	for status := 200; status <= 599; status++ {
		k.Cases = append(k.Cases, statusCase(build, status, false))
	}
	for _, status := range []int{200, 301, 302, 303, 307, 400, 404, 408, 409, 410, 425, 429, 500, 502, 503, 504} {
		k.Cases = append(k.Cases, statusCase(build, status, true))
	}
	k.Cases = append(k.Cases, retryOnCases(build)...)
	k.Cases = append(k.Cases, faultCases(build)...)
	k.Cases = append(k.Cases, hugeCases(build)...)
	k.Cases = append(k.Cases, unreachedCases(build)...)
	k.Cases = append(k.Cases, forbiddenCases(build)...)
	k.Cases = append(k.Cases, resentCases(build)...)
	k.Cases = append(k.Cases, retryAfterCases(build)...)
	k.Cases = append(k.Cases, identicalCase(build, keyHeader), signedIDCase(build))
	return k
}

// to connects a sender to a scripted target. A request counts as taken when it was read completely.
func to(build NewForward, idempotent bool, script Script) func(tb testing.TB) Trial {
	return func(tb testing.TB) Trial {
		target := NewTarget(tb, script)
		return trialOf(build(tb, ForwardTo{URL: target.URL, Idempotent: idempotent}), target)
	}
}

func trialOf(sender effect.Sender, target *Target) Trial {
	return Trial{Attempt: attempts(sender, nil), Taken: func() []string {
		var bodies []string
		if target != nil {
			for _, r := range target.Requests() {
				bodies = append(bodies, r.Body)
			}
		}
		return bodies
	}}
}

// attempts makes attempts like the worker: rendered once, before the first.
func attempts(sender effect.Sender, change func(*effect.Call)) func(ctx context.Context, number int) effect.Result {
	var rendered []byte
	return func(ctx context.Context, number int) effect.Result {
		call := Call(number)
		if change != nil {
			change(call)
		}
		if number == 1 && call.Rendered == nil {
			var err error
			if rendered, err = sender.Render(call); err != nil {
				return effect.Result{Outcome: effect.Dead, Reason: reasons.Render}
			}
		}
		if call.Rendered == nil {
			call.Rendered = rendered
		}
		return sender.Send(ctx, call)
	}
}

// wanted is the table of what a status means, written independently of the kind's own. Only 429
// means that the work was not begun. A proxy in front of the target may send a 5xx, a timeout, a
// conflict or a 425 while the target does the work or after it. A form handler answers 302 or 303
// after it processed the form.
func wanted(status int, idempotent bool) (Topic, effect.Outcome) {
	switch status {
	case 429:
		return Later, effect.Retry
	case 408, 409, 425:
		return AnswersAfter, effect.Unknown
	case 302, 303:
		if !idempotent {
			return AnswersAfter, effect.Unknown
		}
	}
	switch status / 100 {
	case 2:
		return Succeeds, effect.Done
	case 3, 4:
		return Refuses, effect.Dead
	}
	return AnswersAfter, effect.Unknown
}

// statusCase lets the target echo secrets that no result may contain. Its Retry-After does not
// change what the status means.
func statusCase(build NewForward, status int, idempotent bool) Case {
	name := strconv.Itoa(status)
	if idempotent {
		name += " where the target deduplicates"
	}
	c := Case{Name: name, Code: strconv.Itoa(status), Taken: 1}
	c.Topic, c.Want = wanted(status, idempotent)
	body := "said " + Secret + " and canary-canary-canary-canary\x00\xff"
	if status == http.StatusNoContent || status == http.StatusNotModified {
		body = ""
	}
	c.Start = to(build, idempotent, func(conn net.Conn, _ Request) {
		Reply(conn, fmt.Sprintf("%d Whatever", status), http.Header{"Connection": {"close"}, "Retry-After": {"7"}}, body)
	})
	return c
}

// retryOnCases are targets that say which of their answers precede the work. Those are tried again,
// and no others.
func retryOnCases(build NewForward) []Case {
	var out []Case
	for _, c := range []struct {
		status  int
		retryOn []int
		topic   Topic
		want    effect.Outcome
	}{
		{503, []int{429, 503}, Later, effect.Retry},
		{429, []int{429, 503}, Later, effect.Retry},
		{409, []int{409}, Later, effect.Retry},
		{423, []int{423}, Later, effect.Retry},
		{500, []int{429, 503}, AnswersAfter, effect.Unknown},
		{429, []int{503}, AnswersAfter, effect.Unknown},
		{429, []int{}, AnswersAfter, effect.Unknown},
		{404, []int{503}, Refuses, effect.Dead},
	} {
		for _, idempotent := range []bool{false, true} {
			out = append(out, Case{
				Topic: c.topic, Name: fmt.Sprintf("%d where retry_on is %v, deduplicating %t", c.status, c.retryOn, idempotent),
				Want: c.want, Code: strconv.Itoa(c.status), Taken: 1,
				Start: func(tb testing.TB) Trial {
					target := NewTarget(tb, func(conn net.Conn, _ Request) {
						Reply(conn, fmt.Sprintf("%d Whatever", c.status), http.Header{"Connection": {"close"}}, "")
					})
					return trialOf(build(tb, ForwardTo{URL: target.URL, Idempotent: idempotent, RetryOn: c.retryOn}), target)
				},
			})
		}
	}
	return out
}

func faultCases(build NewForward) []Case {
	write := func(text string) Script {
		return func(conn net.Conn, _ Request) { _, _ = io.WriteString(conn, text) }
	}
	stall := func(text string) Script {
		return func(conn net.Conn, _ Request) { _, _ = io.WriteString(conn, text); _, _ = io.Copy(io.Discard, conn) }
	}
	brief := 2 * time.Second // everything before the stall must fit into it
	var out []Case
	for _, c := range []struct {
		topic  Topic
		name   string
		want   effect.Outcome
		limit  time.Duration
		script Script
	}{
		{BreaksAfter, "closes without a reply", effect.Unknown, 0, write("")},
		{BreaksAfter, "resets", effect.Unknown, 0, func(conn net.Conn, _ Request) { _ = conn.(*net.TCPConn).SetLinger(0) }},
		{StallsAfter, "never replies", effect.Unknown, brief, stall("")},
		{StallsAfter, "stalls in its status line", effect.Unknown, brief, stall("HTTP/1.1 2")},
		{StallsAfter, "stalls in its headers", effect.Unknown, brief, stall("HTTP/1.1 200 OK\r\nX-A: b\r\n")},
		{StallsAfter, "stalls in the body after 200", effect.Done, brief, stall("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")},
		{StallsAfter, "stalls in the body after 500", effect.Unknown, brief, stall("HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\n")},
		{HalfReply, "half a status line", effect.Unknown, 0, write("HTTP/1.1 20")},
		{HalfReply, "half a header", effect.Unknown, 0, write("HTTP/1.1 200 OK\r\nX-A")},
		{HalfReply, "half a body after 200", effect.Done, 0, write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal")},
		{HalfReply, "half a body after 400", effect.Dead, 0, write("HTTP/1.1 400 No\r\nContent-Length: 9\r\n\r\nhal")},
		{HalfReply, "half a chunk after 200", effect.Done, 0, write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhal")},
		{HalfReply, "not HTTP", effect.Unknown, 0, write("SSH-2.0-x\r\n\r\n")},
		{HalfReply, "two lengths", effect.Unknown, 0, write("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx")},
		{HalfReply, "only an informational one", effect.Unknown, 0, write("HTTP/1.1 103 Early Hints\r\n\r\n")},
		{HalfReply, "another protocol", effect.Unknown, 0, write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")},
		{SlowReply, "its status line", effect.Unknown, brief, dropByDrop("", "HTTP/1.1 200 OK\r\nX: ")},
		{SlowReply, "its body after 200", effect.Done, brief, dropByDrop("HTTP/1.1 200 OK\r\n\r\n", "")},
		{Secrets, "in its headers", effect.Dead, 0, write("HTTP/1.1 400 " + Secret + "\r\nX: " + Secret + "\r\nContent-Length: 0\r\n\r\n")},
		{Secrets, "cut off by our own limit", effect.Dead, 0, write("HTTP/1.1 400 No\r\n\r\n" + pad(effect.MaxExcerpt-20) + Secret)},
	} {
		// A target that cannot deduplicate: nothing may be sent twice.
		out = append(out, Case{Topic: c.topic, Name: c.name, Want: c.want, Taken: 1, Limit: c.limit, Start: to(build, false, closing(c.script))})
	}
	return append(out, unreadCase(build))
}

// hugeCases never end. What the target has said before its end decides the outcome.
func hugeCases(build NewForward) []Case {
	var out []Case
	for name, c := range map[string]struct {
		want        effect.Outcome
		begin, more string
	}{
		"a header":                 {effect.Unknown, "HTTP/1.1 200 OK\r\nX: ", "x"},
		"headers":                  {effect.Unknown, "HTTP/1.1 200 OK\r\n", "X: y\r\n"},
		"informational ones":       {effect.Unknown, "", "HTTP/1.1 103 Early Hints\r\n\r\n"},
		"a body after 200":         {effect.Done, "HTTP/1.1 200 OK\r\n\r\n", "x"},
		"a body after 500":         {effect.Unknown, "HTTP/1.1 500 No\r\n\r\n", "x"},
		"10 GB that are announced": {effect.Done, "HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n", "x"},
		"chunks":                   {effect.Done, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"},
	} {
		out = append(out, Case{Topic: HugeReply, Name: name, Want: c.want, Taken: 1, Start: func(tb testing.TB) Trial {
			return to(build, false, closing(func(conn net.Conn, _ Request) { pour(tb, conn, c.begin, c.more) }))(tb)
		}})
	}
	return out
}

// unreadCase is a target that accepts and never reads: what was written lies in
// unreadCase is a target that accepts and never reads. The request is in buffers, and the target
// may still read it.
func unreadCase(build NewForward) Case {
	return Case{Topic: StallsAfter, Name: "never reads all of the request", Want: effect.Unknown, Reason: reasons.Timeout, Limit: 2 * time.Second,
		Start: func(tb testing.TB) Trial {
			done := tb.Context().Done()
			address := listen(tb, func(net.Conn) { <-done })
			sender := build(tb, ForwardTo{URL: "http://" + address + "/"})
			large := pad(32 << 20)
			return Trial{Attempt: attempts(sender, func(c *effect.Call) { c.Event.Body = []byte(large) }), Taken: func() []string { return nil }}
		}}
}

// unreachedCases end before a byte of the request was sent.
func unreachedCases(build NewForward) []Case {
	before := func(topic Topic, name, reason string, limit time.Duration, start func(tb testing.TB) ForwardTo) Case {
		return Case{Topic: topic, Name: name, Want: effect.Retry, Reason: reason, Limit: limit, Start: func(tb testing.TB) Trial {
			return trialOf(build(tb, start(tb)), nil)
		}}
	}
	secured := func(serve func(net.Conn)) func(tb testing.TB) ForwardTo {
		return func(tb testing.TB) ForwardTo { return ForwardTo{URL: "https://" + listen(tb, serve) + "/"} }
	}
	named := func(answers ...string) func(tb testing.TB) ForwardTo {
		return func(tb testing.TB) ForwardTo {
			return ForwardTo{URL: "http://target.example./", Resolver: egresstest.NewNameServer(tb, answers...).Resolver()}
		}
	}
	brief := 500 * time.Millisecond
	return []Case{
		before(Unreachable, "nobody listens", reasons.Connect, 0, func(tb testing.TB) ForwardTo { return ForwardTo{URL: "http://" + nobody(tb)} }),
		before(Unreachable, "there is no such name", reasons.DNS, 0, named("")),
		before(BreaksBefore, "closes before TLS", reasons.TLS, 0, secured(func(net.Conn) {})),
		before(BreaksBefore, "speaks no TLS", reasons.TLS, 0, secured(func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n") })),
		before(BreaksBefore, "has the certificate of a stranger", reasons.TLS, 0, func(tb testing.TB) ForwardTo {
			server, _ := certificate(tb)
			return ForwardTo{URL: "https://" + listen(tb, func(conn net.Conn) { handshake(conn, server) }) + "/"}
		}),
		before(StallsBefore, "the name server never answers", "", brief, named()),
		before(StallsBefore, "TLS is never answered", reasons.TLS, brief, secured(func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })),
	}
}

// forbiddenCases are forbidden addresses, in various spellings and as a name server may return
// them.
func forbiddenCases(build NewForward) []Case {
	var out []Case
	for _, address := range forbiddenAddresses() {
		out = append(out, Case{Topic: Forbidden, Name: address, Want: effect.Retry, Reason: reasons.Address, Start: func(tb testing.TB) Trial {
			return trialOf(build(tb, ForwardTo{URL: "http://" + address + "/"}), nil)
		}})
	}
	out = append(out, Case{Topic: Forbidden, Name: "a name that has become private", Want: effect.Retry, Reason: reasons.Address, Start: func(tb testing.TB) Trial {
		target := NewTarget(tb, func(conn net.Conn, _ Request) { Reply(conn, "200 OK", nil, "") })
		names := rebinding(tb)
		return trialOf(build(tb, ForwardTo{URL: named(target.URL), Resolver: names}), target)
	}})
	for _, status := range []string{"301 A", "302 B", "303 C", "307 D", "308 E"} {
		out = append(out, Case{Topic: Forbidden, Name: "a redirect, " + status, Want: effect.Dead, Reason: reasons.Redirect, Start: func(tb testing.TB) Trial {
			other := NewTarget(tb, func(conn net.Conn, _ Request) { Reply(conn, "200 OK", nil, "") })
			target := NewTarget(tb, func(conn net.Conn, _ Request) {
				Reply(conn, status, http.Header{"Location": {other.URL}, "Connection": {"close"}}, "")
			})
			return trialOf(build(tb, ForwardTo{URL: target.URL, Idempotent: true}), other) // which must not get it
		}})
	}
	return out
}

// resentCases send a request on a connection that the target closes after it has read the request.
// A transport that repeats requests by itself sends it twice.
func resentCases(build NewForward) []Case {
	var out []Case
	for name, body := range map[string]string{"a body": "{}", "no body": ""} {
		out = append(out, Case{Topic: BreaksAfter, Name: "on a connection kept alive, with " + name, Want: effect.Unknown, Taken: 1, Start: func(tb testing.TB) Trial {
			var n atomic.Int64
			target := NewTarget(tb, func(conn net.Conn, _ Request) {
				if n.Add(1) == 1 {
					Reply(conn, "200 OK", nil, "")
					return
				}
				_ = conn.Close()
			})
			sender := build(tb, ForwardTo{URL: target.URL, Idempotent: true})
			trial := trialOf(sender, target)
			trial.Attempt = attempts(sender, func(c *effect.Call) { c.Event.Body = []byte(body) })
			if first := trial.Attempt(tb.Context(), 1); first.Outcome != effect.Done {
				tb.Errorf("the first one: %+v", first)
			}
			taken := trial.Taken
			trial.Taken = func() []string { return taken()[1:] }
			return trial
		}})
	}
	return out
}

func retryAfterCases(build NewForward) []Case {
	var out []Case
	for value, want := range map[string]time.Duration{"7": 7 * time.Second, "": 0, "-1": 0, "soon": 0, "99999999999999999999": 0, "Mon, 02 Jan 2006 15:04:05 GMT": 0} {
		out = append(out, Case{
			Topic: Later, Name: fmt.Sprintf("Retry-After %q", value), Want: effect.Retry, Code: "429", Taken: 1,
			Start: to(build, true, func(conn net.Conn, _ Request) {
				Reply(conn, "429 Slow", http.Header{"Retry-After": {value}, "Connection": {"close"}}, "")
			}),
			Check: func(tb testing.TB, r effect.Result) {
				if r.RetryAfter != want {
					tb.Errorf("%s, want %s", r.RetryAfter, want)
				}
			},
		})
	}
	return out
}

func identicalCase(build NewForward, keyHeader string) Case {
	return Case{Topic: Repeats, Name: "body and key", Want: effect.Retry, Taken: 1, Start: func(tb testing.TB) Trial {
		target := NewTarget(tb, func(conn net.Conn, _ Request) { Reply(conn, "429 Later", nil, "") })
		trial := trialOf(build(tb, ForwardTo{URL: target.URL, Idempotent: true}), target)
		trial.Taken = func() []string {
			var out []string
			for _, r := range target.Requests() {
				if got, want := r.Header.Get(keyHeader), Call(1).Key; got != want {
					tb.Errorf("the key is %q, want %q", got, want)
				}
				out = append(out, r.Header.Get(keyHeader)+"\n"+r.Body)
			}
			return out
		}
		return trial
	}}
}

// signedIDCase checks that the id by which a consumer of Standard Webhooks deduplicates identifies
// the effect and not the event. Two routes to one target, and an effect that is sent again under a
// new key, must each get through. The attempts under one key must not.
func signedIDCase(build NewForward) Case {
	return Case{Topic: Succeeds, Name: "an id of its signature for each key", Want: effect.Done, Taken: 1, Start: func(tb testing.TB) Trial {
		target := NewTarget(tb, func(conn net.Conn, _ Request) { Reply(conn, "200 OK", nil, "") })
		sender := build(tb, ForwardTo{URL: target.URL, Idempotent: true})
		sent := func(route, key string, attempt int) string {
			call := Call(attempt)
			call.Route, call.Key = route, key
			if r := sender.Send(tb.Context(), call); r.Outcome != effect.Done {
				tb.Errorf("%+v", r)
			}
			requests := target.Requests()
			return requests[len(requests)-1].Header.Get("Webhook-Id")
		}
		first, again := sent("fulfil", "key-1", 1), sent("fulfil", "key-1", 2)
		other, fresh := sent("notify", "key-2", 1), sent("fulfil", "key-1~v2", 3)
		if first == "" || first != again || other == first || fresh == first || fresh == other {
			tb.Errorf("ids %q, in the next attempt %q, of another route %q, under a new key %q", first, again, other, fresh)
		}
		before := len(target.Requests())
		trial := trialOf(sender, target)
		taken := trial.Taken
		trial.Taken = func() []string { return taken()[before:] }
		return trial
	}}
}
