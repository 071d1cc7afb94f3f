package vectors

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"regexp"
	"strings"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/scheme"
)

// keysAddress is the address of a vector's key set, for providers that take the
// address as a setting.
const keysAddress = "https://keys.example.com/jwks.json"

// material is a vector's keys and parameters.
type material struct {
	keys, params map[string]any
}

func (v *Vector) material() material {
	out := material{params: v.Params}
	_ = json.Unmarshal(v.Keys, &out.keys) // keys that are no JSON object are not used here
	return out
}

// text returns a key or parameter that is a string, or "" if there is none.
func (h material) text(name string) string {
	if text, ok := h.keys[name].(string); ok {
		return text
	}
	text, _ := h.params[name].(string)
	return text
}

// bind returns the provider bound as for a source with the vector's keys and parameters.
// A key or parameter with the name of a setting is the value of that setting. A required
// setting without a value gets the vector's URL.
func (v *Vector) bind(p *providers.Provider) (*providers.Provider, error) {
	h := v.material()
	settings := map[string][]string{}
	for i := range p.Spec().Settings {
		s := &p.Spec().Settings[i]
		if values := v.setting(h, s.Name, s.Required || !p.Fetches()); len(values) > 0 {
			settings[s.Name] = values
		} else if s.Required {
			settings[s.Name] = []string{v.URL} // any text will do
		}
	}
	bound, err := p.Bind(providers.Binding{Settings: settings, Fetcher: store(h)})
	if err != nil {
		return nil, fmt.Errorf("binding: %w", err)
	}
	return bound, nil
}

// setting returns the values of the named setting, or nil. asked says that keys_url
// needs a value: the setting is required, or the provider fetches keys from no host.
func (v *Vector) setting(h material, name string, asked bool) []string {
	for _, from := range []map[string]any{h.params, h.keys} {
		if value, ok := from[name]; ok {
			return texts(value)
		}
	}
	switch name {
	case "insecure":
		return []string{"true"}
	case "algorithm":
		return texts(nonEmpty(v.Algorithm))
	case "algorithms":
		return texts(h.params["algs"])
	case "body_encoding":
		return texts(h.params["body_claim_encoding"])
	case "ca":
		return texts(nonEmpty(h.text("ca_pem")))
	case "roots": // a test certificate is its own root
		byAddress, _ := h.keys["cert_by_url"].(map[string]any)
		var out []string
		for _, certificate := range byAddress {
			out = append(out, fmt.Sprint(certificate))
		}
		return out
	case "keys_url":
		if h.keys["jwks"] != nil && asked {
			return []string{keysAddress}
		}
	case "components":
		// The published examples do not sign the content.
		for header, value := range v.Headers {
			if strings.EqualFold(header, "Signature-Input") && !strings.Contains(value, "content-digest") {
				return []string{"none"}
			}
		}
	}
	return nil
}

func nonEmpty(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func texts(value any) []string {
	switch value := value.(type) {
	case nil:
		return nil
	case string:
		return []string{value}
	case []any:
		var out []string
		for _, one := range value {
			out = append(out, fmt.Sprint(one))
		}
		return out
	}
	return []string{fmt.Sprint(value)}
}

// connect sets the remote address and, as a trusted proxy would, the client certificate.
func (v *Vector) connect(req *providers.Request) {
	req.Remote = v.address()
	if block, _ := pem.Decode([]byte(v.Connection.ClientCertPEM)); block != nil {
		req.Proxied = true
		req.Header.Set("Client-Cert", ":"+base64.StdEncoding.EncodeToString(block.Bytes)+":") // RFC 9440
	}
}

// store is a key store with a vector's keys. Like the real one it refuses an
// address that is not allowed.
type store material

// Fetch returns the vector's key for the request. It returns [scheme.ErrNoKey] if there is none.
func (s store) Fetch(want scheme.KeyRequest) ([]byte, error) {
	if !scheme.Allowed(want.URL, want.Hosts) {
		return nil, fmt.Errorf("fetching keys: %w", scheme.ErrNoKey)
	}
	for _, name := range []string{"cert_by_url", "pem_by_path"} {
		byAddress, _ := s.keys[name].(map[string]any)
		for address, text := range byAddress {
			if strings.HasSuffix(want.URL, address) {
				return []byte(fmt.Sprint(text)), nil
			}
		}
	}
	if set, ok := s.keys["jwks"].(map[string]any); ok {
		return keySet(set, want.Body)
	}
	return nil, scheme.ErrNoKey
}

// keySet returns the whole set or, if the request names a key, only that key.
func keySet(set map[string]any, request []byte) ([]byte, error) {
	if len(request) == 0 {
		return json.Marshal(set)
	}
	var asked struct {
		KeyID string `json:"key_id"`
	}
	if err := json.Unmarshal(request, &asked); err != nil {
		return nil, fmt.Errorf("reading the request for a key: %w", err)
	}
	all, _ := set["keys"].([]any)
	for _, one := range all {
		if key, ok := one.(map[string]any); ok && key["kid"] == asked.KeyID {
			return json.Marshal(map[string]any{"key": key})
		}
	}
	return nil, scheme.ErrNoKey
}

var notedTolerance = regexp.MustCompile(`\bparams\.tolerance=(\d{1,6})\b`)

// tolerate returns the provider with the tolerance that the vector's notes name, or p
// itself if they name none.
func (v *Vector) tolerate(all map[string]*providers.Provider, p *providers.Provider) (*providers.Provider, error) {
	noted := notedTolerance.FindStringSubmatch(v.Notes)
	if noted == nil {
		return p, nil
	}
	spec := fmt.Sprintf("extends: %s\nverify:\n  timestamp: { past: %[2]ss, future: %[2]ss }\n", v.Provider, noted[1])
	return providers.ParseOver(v.Provider, []byte(spec), all)
}
