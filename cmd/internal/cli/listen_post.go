package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// listener posts recorded events to a program on this machine.
type listener struct {
	s       *shell
	caller  control.Caller
	address string
	client  *http.Client

	// waiting is the payload of the event that the program has not taken yet. It is kept because the
	// audit records each reading.
	waiting *control.Revealed
}

// localClient returns a client that follows no redirect and uses no proxy.
func localClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// posted is the result for one event. Status is 0 if there was no answer.
type posted struct {
	Event  *read.EventRow `json:"event"`
	Status int            `json:"status"`
	Millis float64        `json:"ms"`
	Answer string         `json:"answer,omitempty"`

	// Problem says why there is no answer, or why the event was not posted.
	Problem string `json:"problem,omitempty"`
}

// event posts one event. An error that is worth trying again means that the program has not got the
// event; the tail then passes it again.
func (l *listener) event(ctx context.Context, row *read.EventRow) error {
	// An event that no route takes is a good one. The others have no type or are too old.
	if row.Admission != inbox.AdmissionOK && row.Admission != inbox.AdmissionUnrouted {
		return l.show(&posted{Event: row, Problem: "not posted: it was recorded as " + row.Admission})
	}
	payload, err := l.payload(ctx, row)
	if problemCode(err) == control.CodeNotFound {
		return l.show(&posted{Event: row, Problem: "not posted: its body was pruned or erased"})
	}
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.address, bytes.NewReader(payload.Body))
	if err != nil {
		return usagef("--to: %v", err)
	}
	for _, header := range payload.Headers {
		if !header.Masked && !ofConnection(header.Name) {
			request.Header.Add(header.Name, header.Value)
		}
	}
	request.Header.Set("User-Agent", "oncegate-listen")
	// A target of kind forward gets these headers, too. The others describe an effect and its attempts.
	for name, value := range map[string]string{
		"Oncegate-Event": row.ID.String(), "Oncegate-Event-Id": row.EventID, "Oncegate-Event-Type": row.Type, "Oncegate-Source": row.Source,
	} {
		request.Header.Set(name, headerValue(value))
	}
	return l.post(ctx, row, request)
}

// payload reads the payload of an event.
func (l *listener) payload(ctx context.Context, row *read.EventRow) (*control.Revealed, error) {
	if l.waiting != nil && l.waiting.ID == row.ID {
		return l.waiting, nil
	}
	payload, err := control.Call(ctx, l.caller, &control.RevealPayload, control.PayloadRequest{Kind: "event", ID: row.ID})
	if err == nil {
		l.waiting = payload
	}
	return payload, err
}

func (l *listener) post(ctx context.Context, row *read.EventRow, request *http.Request) error {
	out := &posted{Event: row}
	start := time.Now()
	response, err := l.client.Do(request)
	if err == nil {
		var answer []byte
		answer, err = io.ReadAll(io.LimitReader(response.Body, 64<<10))
		_ = response.Body.Close()
		out.Status, out.Answer = response.StatusCode, cut(oneLine(string(answer)), 120)
	}
	out.Millis = float64(time.Since(start).Microseconds()) / 1000
	switch {
	case notConnected(err):
		return errorf(errorcode.NotAcknowledged, "%s takes no connection; %s/%s waits for it", cleanURL(l.address), row.Source, row.EventID)
	case err != nil && out.Status == 0:
		out.Problem = "no answer, and not posted again: " + oneLine(err.Error())
	}
	return l.show(out)
}

// notConnected reports whether a request certainly did not reach the program.
func notConnected(err error) bool {
	failed, ok := errors.AsType[*net.OpError](err)
	return ok && failed.Op == "dial"
}

// show prints the result for an event.
func (l *listener) show(p *posted) error {
	if l.s.output == "json" {
		return l.s.jsonLine(p)
	}
	result := "-> " + p.Problem
	if p.Problem == "" {
		result = fmt.Sprintf("-> %d in %s", p.Status, time.Duration(p.Millis*float64(time.Millisecond)).Round(time.Millisecond))
		if p.Answer != "" {
			result += ": " + p.Answer
		}
	}
	return l.s.tailLine(p.Event.ReceivedAt, p.Event.Source+"/"+p.Event.EventID, p.Event.Type, result)
}

// ofConnection reports whether a header belongs to the connection on which the delivery came.
func ofConnection(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Connection", "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Upgrade", "Keep-Alive", "Host", "Expect", "Accept-Encoding":
		return true
	}
	return false
}

// headerValue returns a text without the bytes that a header must not contain.
func headerValue(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text)
}
