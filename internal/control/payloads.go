package control

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/pretty"
	"github.com/oncegate/oncegate/internal/visible"
)

// PayloadRequest identifies a payload.
type PayloadRequest struct {
	// Kind is the kind of object that has the payload: event, conflict or refusal.
	Kind string `json:"kind"`

	// ID is Oncegate's id of the object.
	ID inbox.ID `json:"id"`
}

// Header is one header of a delivery.
type Header struct {
	Name string `json:"name"`

	// Value is empty if Masked is true.
	Value  string `json:"value,omitempty"`
	Masked bool   `json:"masked,omitempty"`
}

// Payload is a payload in the form that the access may see.
type Payload struct {
	Kind   string   `json:"kind"`
	ID     inbox.ID `json:"id"`
	Source string   `json:"source"`

	// Bytes is the length of the payload.
	Bytes int `json:"bytes" shows:"length"`

	// Format is json, or other for a payload that is not JSON.
	Format string `json:"format"`

	// Text is the payload formatted for people, without the masked values. It is empty if the payload
	// is not JSON.
	Text string `json:"text,omitempty" shows:"content"`

	// Masked is how many members are masked.
	Masked int `json:"masked"`

	// PayloadHidden says that the text and the values of the headers were left out because the access lacks read-payload.
	PayloadHidden bool `json:"payload_hidden,omitempty"`

	// Cut says that Text ends before the payload does.
	Cut bool `json:"cut,omitempty"`

	Headers []Header `json:"headers"`
}

// ShowPayload shows a payload. It masks the members that the configuration names.
var ShowPayload = Operation[PayloadRequest, *Payload]{
	ID: "show_payload", Method: "GET", Path: "/payloads/{kind}/{id}", Scope: ReadMetadata,
	Summary: "Show the payload of an event, a conflict or a refusal, laid out, with secrets masked. Without read-payload it shows the format and the names of the headers.",
	Do: func(ctx context.Context, s *Service, access Access, r PayloadRequest) (*Payload, error) {
		stored, err := s.payload(ctx, access, r)
		if err != nil {
			return nil, err
		}
		return s.show(access, r, stored), nil
	},
}

// Revealed is a payload with nothing masked.
type Revealed struct {
	Kind   string   `json:"kind"`
	ID     inbox.ID `json:"id"`
	Source string   `json:"source"`

	// Body are the exact bytes, in base64.
	Body    []byte   `json:"body"`
	Headers []Header `json:"headers"`
}

// RevealPayload shows a payload with nothing masked. It first writes an audit entry.
var RevealPayload = Operation[PayloadRequest, *Revealed]{
	ID: "reveal_payload", Method: "GET", Path: "/payloads/{kind}/{id}/content", Scope: ReadPayload,
	Summary: "Give the exact bytes of a payload and its headers, with nothing masked. The audit says who looked.",
	Do: func(ctx context.Context, s *Service, access Access, r PayloadRequest) (*Revealed, error) {
		stored, err := s.payload(ctx, access, r)
		if err != nil {
			return nil, err
		}
		if err := s.reveal(ctx, access, r.Kind+"/"+r.ID.String()); err != nil {
			return nil, err
		}
		return &Revealed{Kind: r.Kind, ID: r.ID, Source: stored.source, Body: stored.body, Headers: headersOf(stored.headers, nil)}, nil
	},
}

// ComparePayloadsRequest names two payloads of events.
type ComparePayloadsRequest struct {
	// First and Second are Oncegate's ids of the events.
	First  inbox.ID `json:"first"`
	Second inbox.ID `json:"second"`
}

// ComparePayloads lists the differences between the payloads of two events.
var ComparePayloads = Operation[ComparePayloadsRequest, read.Page[replay.Change]]{
	ID: "compare_payloads", Method: "GET", Path: "/events/{first}/changes/{second}", Scope: ReadPayload,
	Summary: "List in what the payloads of two events differ; members that are secret by name or by the configuration are masked.",
	Do: func(ctx context.Context, s *Service, access Access, r ComparePayloadsRequest) (page read.Page[replay.Change], err error) {
		first, err := s.payload(ctx, access, PayloadRequest{Kind: "event", ID: r.First})
		if err != nil {
			return page, err
		}
		second, err := s.payload(ctx, access, PayloadRequest{Kind: "event", ID: r.Second})
		if err != nil {
			return page, err
		}
		for _, id := range []inbox.ID{r.First, r.Second} {
			if err := s.reveal(ctx, access, "event/"+id.String()); err != nil {
				return page, err
			}
		}
		page.Data = app.PayloadChanges(s.cfg.Settings, first.source, first.body, second.body)
		if page.Data == nil {
			if !bytes.Equal(first.body, second.body) {
				return page, invalid("the payloads differ, but not both are JSON: reveal them to compare their bytes")
			}
			page.Data = []replay.Change{}
		}
		return page, nil
	},
}

// storedPayload is a payload as it was received.
type storedPayload struct {
	source, tenant string
	body           []byte
	headers        map[string][]string
}

// payload reads a payload whose existence the access may know.
func (s *Service) payload(ctx context.Context, access Access, r PayloadRequest) (p storedPayload, err error) {
	switch r.Kind {
	case "event":
		p, err = s.eventPayload(ctx, r.ID)
	case "conflict":
		p, err = s.conflictPayload(ctx, r.ID)
	case "refusal":
		p, err = s.refusalPayload(ctx, r.ID)
	default:
		return p, invalid("kind %q is unknown; known are event, conflict, refusal", r.Kind)
	}
	if access.Tenant != "" && p.tenant != access.Tenant { // also after a read error, because another tenant's object does not exist for the caller
		return storedPayload{}, fmt.Errorf("%s %s: %w", r.Kind, r.ID, inbox.ErrNotFound)
	}
	return p, err
}

func (s *Service) eventPayload(ctx context.Context, id inbox.ID) (p storedPayload, err error) {
	event, err := s.lister.Event(ctx, id.String())
	if err != nil {
		return p, err
	}
	p.source, p.tenant = event.Source, event.Tenant
	if p.body, err = s.lister.Body(ctx, id); err != nil {
		return p, err
	}
	p.headers, err = s.lister.Headers(ctx, id)
	return p, err
}

func (s *Service) conflictPayload(ctx context.Context, id inbox.ID) (p storedPayload, err error) {
	conflict, err := s.lister.Conflict(ctx, id)
	if err != nil {
		return p, err
	}
	p.source, p.tenant = conflict.Source, conflict.Tenant
	p.body, err = s.lister.ConflictBody(ctx, id)
	return p, err
}

func (s *Service) refusalPayload(ctx context.Context, id inbox.ID) (p storedPayload, err error) {
	refusal, err := s.lister.Refusal(ctx, id)
	switch {
	case err != nil:
		return p, err
	case !refusal.Whole:
		return storedPayload{tenant: refusal.Tenant}, &Problem{Code: CodeNotFound, Detail: "the content of this refusal was not kept: only deliveries whose signature did not match are kept whole"}
	}
	return storedPayload{source: refusal.Source, tenant: refusal.Tenant, body: refusal.Body, headers: refusal.Headers}, nil
}

// show formats a payload as the access may see it.
func (s *Service) show(access Access, r PayloadRequest, stored storedPayload) *Payload {
	hide := app.Masks(s.cfg.Settings, stored.source)
	p := &Payload{Kind: r.Kind, ID: r.ID, Source: stored.source, Bytes: len(stored.body), Format: "other", PayloadHidden: !access.Scopes.Allow(ReadPayload)}
	if laid, ok := pretty.JSON(stored.body, pretty.Options{Hide: hide}); ok {
		p.Format, p.Text, p.Masked, p.Cut = "json", laid.Text, laid.Masked, laid.Cut
	}
	p.Headers = headersOf(stored.headers, func(name string) bool {
		return p.PayloadHidden && !strings.EqualFold(name, "content-type") || hide(name)
	})
	return p
}

// headersOf returns headers sorted by name. It leaves out the values of the names for which hide
// returns true.
func headersOf(from map[string][]string, hide func(name string) bool) []Header {
	out := []Header{}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		for _, value := range from[name] {
			h := Header{Name: visible.Text(name), Value: value}
			if hide != nil && hide(name) {
				h.Value, h.Masked = "", true
			}
			out = append(out, h)
		}
	}
	return out
}
