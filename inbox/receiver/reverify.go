package receiver

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/refusal"
	"github.com/oncegate/oncegate/providers"
)

// ErrNotKept is returned for a source whose deliveries are proved by a credential, which is
// not kept with a refusal.
var ErrNotKept = errors.New("what proves a caller of an operation is not kept, so its refused calls cannot be verified again")

// Readmit verifies a kept refusal with the source's secrets of today, at the time
// at which it was received, and makes the admission that the receiver would have
// made of it then. A refusal that does not verify is [refusal.ErrStillRefused], one whose key
// cannot be got now [refusal.ErrUndecided].
//
// Of the address only the path was kept: a scheme that signs more of it needs the
// source's ExternalURL.
func Readmit(s *Source, refused *read.RefusalDetail) (*inbox.Admission, error) {
	if s.Provider.IsOperation() {
		return nil, ErrNotKept
	}
	request := providers.Request{
		Method: refused.Method, URL: s.ExternalURL, Header: http.Header(refused.Headers), Body: refused.Body, ReceivedAt: refused.ReceivedAt.UTC(),
	}
	if request.URL == "" {
		request.URL = refused.URL
	}
	if request.Header == nil {
		request.Header = http.Header{}
	}
	delivery, err := s.Provider.Verify(&request, s.Secrets())
	why, isRefusal := errors.AsType[*providers.Refusal](err)
	deferral, isDeferral := errors.AsType[*providers.Deferral](err)
	switch {
	case isRefusal:
		return nil, fmt.Errorf("%w: %s", refusal.ErrStillRefused, why.Reason)
	case isDeferral:
		return nil, fmt.Errorf("%w: %w", refusal.ErrUndecided, deferral.Err)
	case err != nil:
		return nil, err
	case delivery == nil:
		return nil, errors.New("the provider gave neither a delivery nor a refusal")
	}
	return &inbox.Admission{
		Source: s.Inbox, Body: request.Payload(), Headers: marshalHeaders(payloadHeaders(&request), keptHeaders(s.Provider, s.Keep)),
		ReceivedAt: request.ReceivedAt, IDUnsigned: delivery.IDUnsigned, Events: newEvents(delivery),
	}, nil
}
