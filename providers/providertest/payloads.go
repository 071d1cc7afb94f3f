package providertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"github.com/oncegate/oncegate/providers"
)

// Payload is a delivery whose payload, or its members, the sender has published, together with the
// values to be read from it. It is not signed.
type Payload struct {
	Case string `json:"case"`

	// Source is the page or file in which the sender publishes it.
	Source string `json:"source"`

	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`

	// RetryOf names the case of which this one is a retry.
	RetryOf string `json:"retry_of,omitempty"`

	Events []PayloadEvent `json:"events"`
}

// PayloadEvent is an event of a payload.
type PayloadEvent struct {
	// ID is the event id, or digest or level if the payload has none.
	ID string `json:"id"`

	Type string `json:"type"`

	// OccurredAt is a time in RFC 3339. SequenceKey and SequenceNumber are the event's position.
	// Each is empty if the payload has none.
	OccurredAt     string `json:"occurred_at,omitempty"`
	SequenceKey    string `json:"sequence_key,omitempty"`
	SequenceNumber string `json:"sequence_number,omitempty"`
}

// Request returns a new request with the payload.
func (p *Payload) Request() *providers.Request {
	req := &providers.Request{
		Method: p.Method, URL: p.URL, Header: http.Header{}, Body: []byte(p.Body), ReceivedAt: time.Unix(anyTime, 0).UTC(),
	}
	for name, value := range p.Headers {
		req.Header.Add(name, value)
	}
	return req
}

// Payloads reads <provider>/payloads.json of the test data. It returns nil if there is no such
// file.
func Payloads(data fs.FS, provider string) ([]Payload, error) {
	text, err := fs.ReadFile(data, provider+"/payloads.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading payloads of %s: %w", provider, err)
	}
	var out []Payload
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("reading payloads of %s: %w", provider, err)
	}
	return out, nil
}
