// Package vectors runs files of test vectors: requests with the verdict that a
// provider's verification must give, and the answer that a handshake must get. Call [Parse], then [Run].
package vectors

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/providers"
)

// Vector is one case of a file.
type Vector struct {
	Provider string `json:"provider"`
	Case     string `json:"case"`
	// Kind is verify (the default) or handshake.
	Kind string `json:"kind"`

	// Secret, Secrets, Keys and Params configure the receiver: see [Vector.Held].
	Secret  string          `json:"secret"`
	Secrets []string        `json:"secrets"`
	Keys    json.RawMessage `json:"keys"`
	Params  map[string]any  `json:"params"`

	// Notes are for people. Only "params.tolerance=5" is read: the tolerance of the
	// signed time, in seconds.
	Notes string `json:"notes"`

	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`

	// Algorithm is a setting of some providers.
	Algorithm string `json:"algorithm"`

	Connection struct {
		RemoteAddr    string `json:"remote_addr"`
		ClientCertPEM string `json:"client_cert_pem"`
	} `json:"connection"`

	// Now is the time of receipt in Unix seconds. With null, a refusal because of the
	// signed time counts as accepted.
	Now   *float64 `json:"now"`
	Valid bool     `json:"valid"`

	ExpectResponse *Answer `json:"expect_response"`
}

// Answer is the answer that the sender must get. Empty fields are not compared.
type Answer struct {
	Status      int               `json:"status"`
	ContentType string            `json:"content_type"`
	Headers     map[string]string `json:"headers"`
	Body        *string           `json:"body"`
	JSON        json.RawMessage   `json:"json"`
	BodyJSON    json.RawMessage   `json:"body_json"`
}

// Parse reads a file of vectors.
func Parse(content []byte) ([]Vector, error) {
	var out []Vector
	if err := json.Unmarshal(content, &out); err != nil {
		return nil, fmt.Errorf("reading vectors: not a JSON list of cases: %w", err)
	}
	for i := range out {
		if out[i].Provider == "" || out[i].Case == "" {
			return nil, fmt.Errorf("reading vectors: case %d names no provider or case", i+1)
		}
	}
	return out, nil
}

// Name returns provider/case.
func (v *Vector) Name() string { return v.Provider + "/" + v.Case }

// anyTime is the time of receipt, in Unix seconds, of a vector without Now.
const anyTime = 1_700_000_000

// Request makes the vector's request.
func (v *Vector) Request() *providers.Request {
	now := float64(anyTime)
	if v.Now != nil {
		now = *v.Now
	}
	req := &providers.Request{
		Method: v.Method, URL: v.URL, Header: http.Header{}, Body: []byte(v.Body),
		ReceivedAt: time.UnixMilli(int64(now * 1000)).UTC(),
	}
	for _, name := range slices.Sorted(maps.Keys(v.Headers)) {
		req.Header.Add(name, v.Headers[name])
	}
	v.connect(req)
	return req
}

// address returns the client's address, an IPv4-mapped IPv6 address as IPv4.
func (v *Vector) address() netip.Addr {
	address, err := netip.ParseAddr(v.Connection.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return address.Unmap()
}

// Held returns the secrets as you would configure them for a source of the provider.
// A key with an id is written id=key.
func (v *Vector) Held() []providers.Secret {
	var values []string
	add := func(value any) {
		if text, ok := value.(string); ok && text != "" {
			values = append(values, text)
		}
	}
	h := v.material()
	byID, _ := h.params["keys_by_id"].(map[string]any)
	switch id := h.text("keyid"); {
	case len(byID) > 0:
		for _, id := range slices.Sorted(maps.Keys(byID)) {
			add(id + "=" + fmt.Sprint(byID[id]))
		}
	case id != "":
		add(id + ":" + h.text("alg") + "=" + h.text("public_key_pem") + strings.Join(strings.Fields(h.text("shared_secret_b64")), ""))
	case h.params["username"] != nil:
		add(h.text("username") + ":" + h.text("password"))
	case v.Secret != "" || len(v.Secrets) > 0:
		add(v.Secret)
		for _, secret := range v.Secrets {
			add(secret)
		}
	case h.keys["jwks"] != nil && v.Provider == "plaid":
		add("client:secret") // the credentials for fetching keys
	default:
		for _, name := range slices.Sorted(maps.Keys(h.keys)) {
			h.secret(name, add)
		}
	}
	out := make([]providers.Secret, len(values))
	for i, value := range values {
		out[i] = providers.Secret{Name: fmt.Sprintf("secret %d", i+1), Value: []byte(value)}
	}
	return out
}

// secret adds the values of the named key if they are secrets.
func (h material) secret(name string, add func(any)) {
	if name == "private_key" || strings.HasPrefix(name, "key_base") || name == "ca_pem" {
		return
	}
	switch value := h.keys[name].(type) {
	case string:
		if strings.Trim(name, "0123456789") == "" { // the name is the key's id
			value = name + "=" + value
		}
		add(value)
	case []any:
		for _, one := range value {
			add(one)
		}
	}
}
