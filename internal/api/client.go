package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/internal/sleep"
)

// Client carries out operations at a server. Server, Token and HTTP are required.
type Client struct {
	// Server is the address of the private listener, such as http://127.0.0.1:8081.
	Server string

	// Token is sent with every request.
	Token string

	// Database is the name of the database that carries the requests out, of a server with several. Empty means every one that a
	// request concerns.
	Database string

	// HTTP makes the requests; its Timeout bounds each.
	HTTP *http.Client

	// Pause is how long the client waits before it repeats a request that got no answer. It defaults to 1 s.
	Pause time.Duration

	fresh atomic.Pointer[session.Freshness]
}

// Freshness returns how old the data of the last answer is.
func (c *Client) Freshness() session.Freshness {
	if f := c.fresh.Load(); f != nil {
		return *f
	}
	return session.Freshness{}
}

const (
	// maxAnswer is the largest answer that a client reads, in bytes.
	maxAnswer = 64 << 20

	// maxRepeats is how often the client repeats a request that got no answer. That takes longer than a server works
	// on a request.
	maxRepeats = 30
)

// Call carries out an operation at the server. A refusal by the server is a [control.Problem].
//
// Each POST has a new Idempotency-Key. If its connection breaks, the client repeats the request under the same key, so
// that it happens once. If the client cannot get an answer, the problem is [control.CodeOutcomeUnknown].
func (c *Client) Call(ctx context.Context, operation control.Definition, request, response any) error {
	made, err := c.newRequest(operation.Describe(), request)
	if err != nil {
		return err
	}
	var lost error
	for repeats := 0; ; repeats++ {
		text, header, err := c.send(ctx, made)
		switch {
		case err == nil:
			c.fresh.Store(new(readFreshness(header)))
			return readAnswer(text, header, response)
		case made.key == "":
			return err
		case IsNoAnswer(err) && (lost != nil || !isNoConnection(err)):
			lost = err
		case lost != nil && isForLater(err): // such as the first request, which the server still carries out
		case lost != nil && isUnauthorized(err):
			return unknownOutcome(lost)
		default:
			return err
		}
		if repeats == maxRepeats || sleep.For(ctx, cmp.Or(c.Pause, time.Second)) != nil {
			return unknownOutcome(lost)
		}
	}
}

func unknownOutcome(lost error) error {
	return &control.Problem{
		Code:   control.CodeOutcomeUnknown,
		Detail: fmt.Sprintf("the server did not say whether it happened (%v): look at what it was about, and at the audit, before you do it again", lost),
	}
}

// outgoing is a request to send, possibly several times.
type outgoing struct {
	method, address string
	body            []byte
	match           http.Header
	key             string
}

func (c *Client) newRequest(d control.Description, request any) (*outgoing, error) {
	body := hasBody(d.Method)
	path, query, err := encodeAddress(reflect.ValueOf(request), d.Path, body)
	if err != nil {
		return nil, &control.Problem{Code: control.CodeInvalid, Detail: err.Error()}
	}
	out := &outgoing{method: d.Method, address: strings.TrimSuffix(c.Server, "/") + Prefix + path, match: http.Header{}}
	if len(query) > 0 {
		out.address += "?" + query.Encode()
	}
	writeIfMatch(out.match, request)
	if body {
		if out.body, err = json.Marshal(request); err != nil {
			return nil, fmt.Errorf("writing the request: %w", err)
		}
	}
	if d.Method == http.MethodPost {
		out.key = rand.Text()
	}
	return out, nil
}

// noAnswer means that a request got no answer, or an incomplete one.
type noAnswer struct{ err error }

func (e *noAnswer) Error() string { return "asking the server: " + e.err.Error() }
func (e *noAnswer) Unwrap() error { return e.err }

// IsNoAnswer reports whether a request to the server got no answer, or an incomplete one.
func IsNoAnswer(err error) bool {
	_, ok := errors.AsType[*noAnswer](err)
	return ok
}

// isNoConnection reports whether a request was certainly not sent.
func isNoConnection(err error) bool {
	network, ok := errors.AsType[*net.OpError](err)
	return ok && network.Op == "dial"
}

// isForLater reports whether the server says that the same request may succeed later.
func isForLater(err error) bool {
	problem, ok := errors.AsType[*control.Problem](err)
	return ok && problem.Code.Meaning().Retriable
}

func isUnauthorized(err error) bool {
	problem, ok := errors.AsType[*control.Problem](err)
	return ok && problem.Code == control.CodeUnauthorized
}

// send makes the request once.
func (c *Client) send(ctx context.Context, made *outgoing) ([]byte, http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, made.method, made.address, bytes.NewReader(made.body))
	if err != nil {
		return nil, nil, fmt.Errorf("the address of the server: %w", err)
	}
	maps.Copy(r.Header, made.match)
	r.Header.Set("Authorization", "Bearer "+c.Token)
	r.Header.Set("Accept", "application/json")
	if c.Database != "" {
		r.Header.Set(databaseHeader, c.Database)
	}
	if made.body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if made.key != "" {
		r.Header.Set(keyHeader, made.key)
	}
	direct := *c.HTTP
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := direct.Do(r)
	if err != nil {
		return nil, nil, &noAnswer{err}
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 && answer.StatusCode < 400 {
		return nil, nil, fmt.Errorf("the server answered %s, and redirects are not followed, so that the token goes nowhere else: give the address of the private listener itself with --server", answer.Status)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return nil, nil, &noAnswer{err}
	}
	if len(text) > maxAnswer {
		return nil, nil, fmt.Errorf("the server's answer is larger than %d MiB: narrow the request, and check that %s is the address of the private listener", maxAnswer>>20, c.Server)
	}
	if answer.StatusCode != http.StatusOK {
		var p ProblemDocument
		if json.Unmarshal(text, &p) != nil || p.Code == "" {
			return nil, nil, fmt.Errorf("the server answered %s, and not as Oncegate's API does: is %s the address of the private listener?", answer.Status, c.Server)
		}
		if p.Detail == "" && p.Code == control.CodeInternal {
			p.Detail = p.Title + ": the log of the server has it under the request id " + p.RequestID
		}
		return nil, nil, &control.Problem{Code: p.Code, Detail: p.Detail}
	}
	return text, answer.Header, nil
}

// readAnswer reads the server's answer.
func readAnswer(text []byte, header http.Header, response any) error {
	if content, ok := response.(*control.Content); ok {
		_, parameters, err := mime.ParseMediaType(header.Get("Content-Disposition"))
		if err != nil {
			return fmt.Errorf("reading the server's answer: %w", err)
		}
		*content = control.Content{Name: parameters["filename"], Bytes: text}
		return nil
	}
	if err := json.Unmarshal(text, response); err != nil {
		return fmt.Errorf("reading the server's answer: %w", err)
	}
	return nil
}
