package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/egress"
	"github.com/oncegate/oncegate/jobs/effect"
)

// DryRun implements [effect.DryRunner]. Only the status line decides: 2xx is accepted, and 4xx is refused except for
// 408, 425 and 429, which postpone the answer.
func (d *DryRunner) DryRun(ctx context.Context, call *effect.DryCall) effect.DryResult {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	req, body, err := d.request(ctx, call)
	if err != nil {
		return effect.DryResult{Outcome: effect.DryUnknown, Reason: reasons.Render, Cause: err.Error()}
	}
	if d.isWork(req, body, &call.Today) {
		return effect.DryResult{Outcome: effect.DryUnknown, Reason: reasons.Render, Cause: ErrSameRequest.Error()}
	}
	reply, err := exchange(d.transport, req)
	if err != nil {
		return d.failure(ctx, err)
	}
	defer reply.Body.Close()
	return d.answer(reply)
}

// isWork reports whether the question is the request of an attempt except for the idempotency key. today.Address is
// empty if the target's address has no expressions.
func (d *DryRunner) isWork(req *http.Request, body []byte, today *effect.Request) bool {
	work := d.work
	if today.Address != "" {
		work = plainURL(today.Address)
	}
	return d.alike && req.Method == today.Method && plainURL(req.URL.String()) == work && bytes.Equal(body, today.Body)
}

func (d *DryRunner) request(ctx context.Context, call *effect.DryCall) (*http.Request, []byte, error) {
	asked := effect.Call{Event: call.Event, Route: call.Route} // without a key
	address, body := d.url.String(), call.Today.Body
	var err error
	if len(d.template.places) > 0 {
		if address, err = d.template.fill(&asked); err != nil {
			return nil, nil, fmt.Errorf("url: %w", err)
		}
	}
	contentType := call.Event.ContentType
	switch {
	case d.cfg.Method == http.MethodGet:
		body, contentType = nil, ""
	case d.cfg.Body != nil:
		contentType = "application/json"
		if body, err = d.cfg.Body(&asked); err != nil {
			return nil, nil, fmt.Errorf("body: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, d.cfg.Method, address, &once{b: body})
	if err != nil {
		return nil, nil, errors.New("the request cannot be made")
	}
	req.ContentLength = int64(len(body))
	if d.cfg.Method == http.MethodGet {
		req.Body = http.NoBody
	}
	req.GetBody = nil
	for name, value := range d.cfg.Headers {
		req.Header.Set(name, value)
	}
	for name, value := range map[string]string{
		"Content-Type": contentType, "User-Agent": "Oncegate", HeaderDryRun: call.ID, HeaderType: call.Event.Type, HeaderSource: call.Event.Source,
	} {
		if value != "" {
			req.Header.Set(name, headerValue(value))
		}
	}
	sign(req.Header, d.keys, d.cfg.Now, call.ID, body)
	return req, body, nil
}

func (d *DryRunner) failure(ctx context.Context, err error) effect.DryResult {
	r := effect.DryResult{Outcome: effect.DryUnknown, Reason: reasons.Connection, Cause: effect.SafeError(err)}
	switch {
	case errors.Is(err, egress.ErrRefused):
		r.Reason = reasons.Address
	case effect.TimedOut(ctx, err):
		r.Reason = reasons.Timeout
	case ctx.Err() != nil:
		r.Reason = reasons.Stopped
	}
	return r
}

func (d *DryRunner) answer(reply *http.Response) effect.DryResult {
	status := reply.StatusCode
	r := effect.DryResult{Outcome: effect.DryUnknown, Code: strconv.Itoa(status), Reason: reasonOf(status)}
	switch {
	case status >= 200 && status <= 299:
		r.Outcome = effect.DryAccepted
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests:
	case status >= 400 && status <= 499:
		r.Outcome = effect.DryRefused
	}
	if r.Outcome == effect.DryUnknown {
		r.RetryAfter = retryAfter(reply.Header.Get("Retry-After"), d.cfg.Now())
	}
	body, err := io.ReadAll(io.LimitReader(reply.Body, maxReply+1))
	if r.Cut = err != nil || len(body) > maxReply; r.Cut {
		body = body[:min(len(body), maxReply)]
	}
	r.Body = withoutSecrets(body, d.cfg.Sign, d.keys, d.cfg.Headers)
	return r
}
