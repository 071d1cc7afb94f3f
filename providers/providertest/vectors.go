// Package providertest checks that a provider of the catalogue accepts what it should and nothing
// else. It uses published vectors, and hostile variants derived from every valid one.
package providertest

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"net/netip"
	"reflect"
	"time"

	"github.com/oncegate/oncegate/providers"
)

// Vector is a request and its expected result.
type Vector struct {
	Case string `json:"case"`
	// Origin is official-docs, official-sdk-test, derived, computed or own.
	Origin string `json:"origin"`
	// Source says where the vector was found.
	Source string `json:"source"`
	// ProvedBy says which kind of outside source signed or accepted the request: vendor, library,
	// capture or third-party. Source names it. It is empty for a vector that proves nothing.
	ProvedBy string `json:"proved_by"`
	// Kind is handshake if the request tests the endpoint. Otherwise the request is a delivery.
	Kind string `json:"kind"`
	// Spec is the YAML of a custom provider, if the vector is not for one of the catalogue.
	Spec   string `json:"spec"`
	Secret string `json:"secret"`
	// Several contains the secrets by name, if there is more than one.
	Several []NamedSecret `json:"secrets"`
	// SignSecret is the private key, if it differs from the secret.
	SignSecret string `json:"sign_secret"`
	// Settings contains the source's settings.
	Settings map[string][]string `json:"settings"`
	// Keys contains the documents that may be fetched, by address. A posted body follows the
	// address on a separate line.
	Keys map[string]string `json:"keys"`
	// Remote is the client's address. Proxied is true if the client is a trusted proxy.
	Remote  string            `json:"remote"`
	Proxied bool              `json:"proxied"`
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Valid   bool              `json:"valid"`
	// Now is the time of receipt in Unix seconds. If it is absent, the vector is valid at any time.
	Now int64 `json:"now"`
	// Expect is the reason of the refusal, if the vector requires a certain one.
	Expect string `json:"expect"`
	// ExpectResponse is the answer to a handshake.
	ExpectResponse *Response `json:"expect_response"`
	Notes          string    `json:"notes"`
}

// NamedSecret is one of several secrets.
type NamedSecret struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Response is the expected answer to a handshake.
type Response struct {
	Status      int               `json:"status"`
	ContentType string            `json:"content_type"`
	Body        string            `json:"body"`
	JSON        json.RawMessage   `json:"json"`
	Headers     map[string]string `json:"headers"`
}

// Differs describes how a reply differs from the expected one. It is empty if they agree.
func (r *Response) Differs(reply *providers.Reply) string {
	switch {
	case reply.Status != r.Status:
		return fmt.Sprintf("status %d, not %d", reply.Status, r.Status)
	case r.ContentType != "" && reply.ContentType != r.ContentType:
		return fmt.Sprintf("content type %q, not %q", reply.ContentType, r.ContentType)
	case r.JSON == nil && string(reply.Body) != r.Body:
		return fmt.Sprintf("body %q, not %q", reply.Body, r.Body)
	}
	if r.JSON != nil {
		var got, want any
		if json.Unmarshal(reply.Body, &got) != nil || json.Unmarshal(r.JSON, &want) != nil || !reflect.DeepEqual(got, want) {
			return fmt.Sprintf("body %q, not %s", reply.Body, r.JSON)
		}
	}
	for name, value := range r.Headers {
		if reply.Header.Get(name) != value {
			return fmt.Sprintf("header %s %q, not %q", name, reply.Header.Get(name), value)
		}
	}
	return ""
}

// anyTime is the time of receipt for a vector without one.
const anyTime = 1_700_000_000

// Request returns a new request with the vector's content.
func (v *Vector) Request() *providers.Request {
	now := v.Now
	if now == 0 {
		now = anyTime
	}
	req := &providers.Request{
		Method: v.Method, URL: v.URL, Header: http.Header{}, Body: []byte(v.Body),
		ReceivedAt: time.Unix(now, 0).UTC(),
	}
	for name, value := range v.Headers {
		req.Header.Add(name, value)
	}
	req.Remote, _ = netip.ParseAddr(v.Remote)
	req.Proxied = v.Proxied
	return req
}

// Secrets returns the vector's secrets, with the names that a match reports.
func (v *Vector) Secrets() []providers.Secret {
	if len(v.Several) > 0 {
		out := make([]providers.Secret, len(v.Several))
		for i, s := range v.Several {
			out[i] = providers.Secret{Name: s.Name, Value: []byte(s.Value)}
		}
		return out
	}
	if v.Secret == "" {
		return nil
	}
	return []providers.Secret{{Name: "current", Value: []byte(v.Secret)}}
}

// Vectors reads <provider>/vectors.json of the test data.
func Vectors(data fs.FS, provider string) ([]Vector, error) {
	text, err := fs.ReadFile(data, provider+"/vectors.json")
	if err != nil {
		return nil, fmt.Errorf("reading vectors of %s: %w", provider, err)
	}
	var out []Vector
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("reading vectors of %s: %w", provider, err)
	}
	return out, nil
}

// Octokit iterates over GitHub's published example payloads in the test data.
func Octokit(data fs.FS) iter.Seq2[OctokitExample, error] {
	return func(yield func(OctokitExample, error) bool) {
		file, err := data.Open("octokit/examples.ndjson.gz")
		if err != nil {
			yield(OctokitExample{}, fmt.Errorf("opening octokit's examples: %w", err))
			return
		}
		zipped, err := gzip.NewReader(file)
		if err != nil {
			yield(OctokitExample{}, errors.Join(fmt.Errorf("opening octokit's examples: %w", err), file.Close()))
			return
		}
		lines := bufio.NewScanner(zipped)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var example OctokitExample
			err := json.Unmarshal(lines.Bytes(), &example)
			if !yield(example, err) || err != nil {
				break
			}
		}
		if err := errors.Join(lines.Err(), file.Close()); err != nil {
			yield(OctokitExample{}, fmt.Errorf("reading octokit's examples: %w", err))
		}
	}
}

// OctokitExample is one example payload.
type OctokitExample struct {
	Event string          `json:"event"`
	Body  json.RawMessage `json:"body"`
}

// Type returns the event type by GitHub's convention: name and action.
func (e *OctokitExample) Type() (string, error) {
	var body struct {
		Action string `json:"action"`
	}
	if err := json.Unmarshal(e.Body, &body); err != nil {
		return "", fmt.Errorf("reading an example of %s: %w", e.Event, err)
	}
	if body.Action == "" {
		return e.Event, nil
	}
	return e.Event + "." + body.Action, nil
}
