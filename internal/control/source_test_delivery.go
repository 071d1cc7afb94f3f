package control

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/delivery"
	"github.com/oncegate/oncegate/providers"
)

// TestSourceRequest names the source to which a test delivery is sent.
type TestSourceRequest struct {
	Explained

	// Source is the name of a source of the server's configuration.
	Source string `json:"source"`

	// DryRun only signs the delivery and verifies it: nothing is recorded.
	DryRun bool `json:"dry_run,omitempty" flag:"--dry-run sign the example and verify it, and send nothing"`
}

// TestDelivery is the result of a test delivery.
type TestDelivery struct {
	// EventID is the event id of the delivery, Type its type.
	EventID string `json:"event_id"`
	Type    string `json:"type,omitempty"`

	// Verified says that the delivery verifies with the secrets of the source. A dry run ends after that.
	Verified bool `json:"verified"`

	// Status is the receiver's HTTP status. Outcome is what the receiver did, such as recorded. Event is our id of
	// the event.
	Status  int    `json:"status,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Event   string `json:"event,omitempty"`
}

// TestSource sends a test delivery through a source.
var TestSource = Operation[TestSourceRequest, TestDelivery]{
	ID: "test_source", Method: "POST", Path: "/sources/{source}/test", Scope: Operate,
	Summary: "Send the example of the source's provider to the server itself, signed with the source's newest secret. It is an event like any other: its routes act on it.",
	Why:     "why is a test sent?",
	Do: func(ctx context.Context, s *Service, access Access, r TestSourceRequest) (out TestDelivery, err error) {
		source := s.configured(r.Source)
		if source == nil || access.owns(source.Tenant, "source", r.Source) != nil {
			return out, notFound("source", r.Source)
		}
		request, err := s.testDelivery(r.Source)
		if err != nil {
			return out, err
		}
		out.EventID = request.id
		delivery, err := request.provider.Verify(request.Request, source.Keys())
		if err != nil {
			return out, &Problem{Code: CodeInvalid, Detail: "the example of the provider does not verify with the source's secrets: " + err.Error()}
		}
		out.Verified = true
		if len(delivery.Items) > 0 {
			out.Type = delivery.Items[0].Type
		}
		if r.DryRun {
			return out, nil
		}
		if s.cfg.Deliver == nil {
			return out, &Problem{Code: CodeInvalid, Detail: "this process takes no deliveries: ask one that does, or use `oncegate send`"}
		}
		why := or(r.Reason, "a test of the source")
		if err := inbox.CheckExplanation(access.Actor, why); err != nil {
			return out, err
		}
		err = pgx.BeginFunc(ctx, s.cfg.Pool, func(tx pgx.Tx) error {
			return inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
				At: s.cfg.Now(), Actor: access.Actor, Action: AuditTestSource, Object: "source/" + r.Source, Reason: why, After: map[string]string{"event_id": out.EventID},
			})
		})
		if err != nil {
			return out, err
		}
		return out, request.deliver(ctx, s.cfg.Deliver, &out)
	},
}

// AuditTestSource records that a test delivery was sent through a source. Stored: never change.
const AuditTestSource inbox.AuditAction = "source.test"

// signedDelivery is a signed delivery.
type signedDelivery struct {
	*providers.Request
	provider *providers.Provider
	id       string
}

// testDelivery signs the example of a source's provider with the source's newest secret.
func (s *Service) testDelivery(name string) (*signedDelivery, error) {
	source := s.configured(name)
	if !source.OverHTTP() {
		return nil, invalid("source %s takes nothing over HTTP: publish a message to its broker (%s)", name, source.From)
	}
	provider, err := source.Provider.Bind(providers.Binding{Settings: source.Values()})
	if err != nil {
		return nil, invalid("%v", err)
	}
	keys := source.Keys()
	if len(keys) == 0 {
		return nil, invalid("source %s has no secret that a test delivery could be signed with", name)
	}
	draft, err := delivery.New(provider, delivery.Options{At: s.cfg.Now()})
	switch {
	case errors.Is(err, delivery.ErrNoExample):
		return nil, invalid("the catalogue has no example of %s; send a payload of your own with `oncegate send`", provider.Name())
	case err != nil:
		return nil, err
	}
	draft.Header.Set("User-Agent", "oncegate-test")
	r, err := draft.Sign(provider, "", or(source.ExternalURL, "http://localhost/in/"+name), keys[0])
	if err != nil {
		return nil, invalid("%v", err)
	}
	return &signedDelivery{Request: r, provider: provider, id: draft.EventID}, nil
}

// deliver passes the delivery to the receiver of this process, as if it had arrived at its public listener.
func (d *signedDelivery) deliver(ctx context.Context, receiver http.Handler, out *TestDelivery) error {
	r, err := http.NewRequestWithContext(ctx, d.Method, d.URL, bytes.NewReader(d.Body))
	if err != nil {
		return err
	}
	r.Header, r.RemoteAddr, r.RequestURI = d.Header, "127.0.0.1:1", r.URL.RequestURI()
	r.Header.Set("Content-Length", strconv.Itoa(len(d.Body)))
	w := &recordedAnswer{header: http.Header{}, status: http.StatusOK}
	receiver.ServeHTTP(w, r)
	out.Status = w.status
	out.Outcome, out.Event = delivery.Outcome(w.status, w.header, w.body.Bytes())
	return nil
}

// recordedAnswer records the answer of a handler.
type recordedAnswer struct {
	header http.Header
	status int
	wrote  bool
	body   bytes.Buffer
}

// Header returns the headers.
func (a *recordedAnswer) Header() http.Header { return a.header }

// WriteHeader records the status.
func (a *recordedAnswer) WriteHeader(status int) {
	if !a.wrote {
		a.status, a.wrote = status, true
	}
}

// Write records the body.
func (a *recordedAnswer) Write(b []byte) (int, error) {
	a.wrote = true
	return a.body.Write(b)
}
