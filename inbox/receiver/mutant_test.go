package receiver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/providers"
)

// recorder takes a suite's complaints.
type recorder struct{ complaints []string }

func (*recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.complaints = append(r.complaints, fmt.Sprintf(format, args...))
}

// A suite that passes what is known to be wrong proves nothing.
func TestTheTableFailsWrongReceivers(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]builder{
		"verifies after parsing":              provided(func(p receiver.Provider) receiver.Provider { return parseFirst{p} }),
		"hands what is forged to the gate":    provided(func(p receiver.Provider) receiver.Provider { return believing{p} }),
		"refuses what is signed but unusable": provided(func(p receiver.Provider) receiver.Provider { return picky{p} }),
		"acknowledges before the gate has answered": func(tb testing.TB, cfg receiver.Config) http.Handler {
			tb.Helper()
			cfg.Gate = hasty{cfg.Gate}
			return newReceiver(tb, cfg)
		},
		"blames the sender for our fault": status(http.StatusServiceUnavailable, http.StatusBadRequest),
		"acknowledges our fault":          status(http.StatusServiceUnavailable, http.StatusOK),
		"says not found for forged":       status(http.StatusUnauthorized, http.StatusNotFound),
		"acknowledges what is forged":     status(http.StatusUnauthorized, http.StatusOK),
		"explains a refusal": func(tb testing.TB, cfg receiver.Config) http.Handler {
			tb.Helper()
			next := newReceiver(tb, cfg)
			return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				next.ServeHTTP(explaining{w}, req)
			})
		},
		"has no limit for a body": func(tb testing.TB, cfg receiver.Config) http.Handler {
			tb.Helper()
			cfg.Sources["shop"].MaxBody = 4 * maxBody
			cfg.BodyBytes = 0
			return newReceiver(tb, cfg)
		},
		"acknowledges a conflict of an operation": func(tb testing.TB, cfg receiver.Config) http.Handler {
			tb.Helper()
			if p, ok := cfg.Sources["shop"].Provider.(*provider); ok {
				p.operation = false
			}
			return newReceiver(tb, cfg)
		},
		"keeps no refusals": func(tb testing.TB, cfg receiver.Config) http.Handler {
			tb.Helper()
			cfg.Refusals = nil
			return newReceiver(tb, cfg)
		},
		"counts nothing": func(tb testing.TB, cfg receiver.Config) http.Handler {
			tb.Helper()
			cfg.Metrics = nil
			return newReceiver(tb, cfg)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var found recorder
			for _, test := range answerCases() {
				checkAnswer(t, &found, wrong, test)
			}
			if len(found.complaints) == 0 {
				t.Error("the suite passed a receiver that is known to be wrong")
			}
		})
	}
}

func provided(wrap func(receiver.Provider) receiver.Provider) builder {
	return func(tb testing.TB, cfg receiver.Config) http.Handler {
		tb.Helper()
		cfg.Sources["shop"].Provider = wrap(cfg.Sources["shop"].Provider)
		return newReceiver(tb, cfg)
	}
}

// parseFirst verifies what it understood instead of what was sent.
type parseFirst struct{ receiver.Provider }

func (p parseFirst) Verify(req *providers.Request, secrets []providers.Secret) (*providers.Delivery, error) {
	var understood bytes.Buffer
	if err := json.Compact(&understood, req.Body); err != nil {
		return nil, &providers.Refusal{Reason: providers.ReasonMalformed}
	}
	changed := *req
	changed.Body = understood.Bytes()
	return p.Provider.Verify(&changed, secrets)
}

// believing takes a signature that does not match.
type believing struct{ receiver.Provider }

func (p believing) Verify(req *providers.Request, secrets []providers.Secret) (*providers.Delivery, error) {
	delivery, err := p.Provider.Verify(req, secrets)
	var refusal *providers.Refusal
	if errors.As(err, &refusal) && refusal.Reason == providers.ReasonMismatch {
		return &providers.Delivery{Items: items(req.Body)}, nil
	}
	return delivery, err
}

// picky refuses what it cannot use.
type picky struct{ receiver.Provider }

func (p picky) Verify(req *providers.Request, secrets []providers.Secret) (*providers.Delivery, error) {
	delivery, err := p.Provider.Verify(req, secrets)
	if err == nil && delivery != nil {
		for _, item := range delivery.Items {
			if item.Unusable != "" {
				return nil, &providers.Refusal{Reason: providers.ReasonMalformed}
			}
		}
	}
	return delivery, err
}

// hasty answers without the gate.
type hasty struct{ receiver.Accepter }

func (h hasty) Accept(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
	kept := *a
	kept.Body = bytes.Clone(a.Body)
	go func() {
		defer func() { _ = recover() }()
		_, _ = h.Accepter.Accept(context.WithoutCancel(ctx), &kept)
	}()
	return receipt(a, inbox.Recorded), nil
}

// status answers one status in place of another.
func status(from, to int) builder {
	return func(tb testing.TB, cfg receiver.Config) http.Handler {
		tb.Helper()
		next := newReceiver(tb, cfg)
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			next.ServeHTTP(translating{w, from, to}, req)
		})
	}
}

type translating struct {
	http.ResponseWriter
	from, to int
}

func (w translating) WriteHeader(status int) {
	if status == w.from {
		status = w.to
	}
	w.ResponseWriter.WriteHeader(status)
}

// explaining tells a forger what was wrong.
type explaining struct{ http.ResponseWriter }

func (w explaining) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status)
	if status == http.StatusUnauthorized {
		_, _ = w.Write([]byte("the signature does not match"))
	}
}
