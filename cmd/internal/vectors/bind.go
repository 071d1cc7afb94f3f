package vectors

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/scheme"
)

// settingNames are a vector's parameters that a provider's setting names otherwise.
func settingNames() map[string][]string {
	return map[string][]string{
		"topic_arns": {"topics", "topic_arn"}, "public_key": {"public_key", "public_keys"}, "cidrs": {"addresses", "networks", "allow"},
		"issuer": {"issuers"}, "issuers": {"issuer"}, "audience": {"audiences"}, "email": {"emails", "service_account"},
		"san_dns": {"names", "san"}, "algs": {"algorithms"}, "topics": {"topics"}, "body_claim_encoding": {"body_encoding"},
	}
}

// bind gives the provider as a source with the vector's parameters has it: a
// parameter is a setting where the provider declares one of that name.
func (v *Vector) bind(p *providers.Provider) (*providers.Provider, error) {
	settings := map[string][]string{}
	var keys map[string]any
	_ = json.Unmarshal(v.Keys, &keys) // keys of another shape are no settings
	declared := map[string]bool{}
	for _, s := range p.Spec().Settings {
		declared[s.Name] = true
	}
	for _, from := range []map[string]any{keys, v.Params} {
		for name, value := range from {
			for _, candidate := range append([]string{name}, settingNames()[name]...) {
				if declared[candidate] {
					settings[candidate] = texts(value)
					break
				}
			}
		}
	}
	if declared["insecure"] {
		settings["insecure"] = []string{"true"}
	}
	bound, err := p.Bind(providers.Binding{Settings: settings, Fetcher: store{keys}})
	if err != nil {
		return nil, fmt.Errorf("binding: %w", err)
	}
	return bound, nil
}

func texts(value any) []string {
	switch value := value.(type) {
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

// connect adds what is known of the connection, as a trusted proxy would tell it.
func (v *Vector) connect(req *providers.Request) {
	req.Remote = v.address()
	if v.Connection.ClientCertPEM != "" {
		req.Proxied = true
		req.Header.Set("X-Client-Cert", url.QueryEscape(v.Connection.ClientCertPEM))
	}
}

// store is a key store that holds a vector's keys. Like the real one it gives
// nothing from a host that was not allowed.
type store struct{ keys map[string]any }

// Fetch gives the vector's key.
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

// keySet gives the whole set, or, to a request that names a key, that key alone.
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
