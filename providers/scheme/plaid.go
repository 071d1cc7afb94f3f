package scheme

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// plaidKey asks Plaid for one key. It is Go because the key store is an
// authenticated call for each key and not a published set; the secret of the
// source is client_id:secret.
func (in *Input) plaidKey(id string) ([]jose.JSONWebKey, error) {
	if id == "" {
		return nil, refuse(Malformed, "the token names no key")
	}
	if len(in.Secrets) == 0 {
		return nil, errors.New("asking Plaid for a key needs client_id:secret")
	}
	client, secret, _ := strings.Cut(string(in.Secrets[0].Value), ":")
	body, err := json.Marshal(map[string]string{"client_id": client, "secret": secret, "key_id": id})
	if err != nil {
		return nil, errors.New("the question to Plaid cannot be written")
	}
	text, err := in.fetch(KeyRequest{URL: in.Settings.One("keys_url"), Hosts: in.Settings["hosts"], Body: body})
	if err != nil {
		store, ok := errors.AsType[*StoreError](err)
		var answer struct {
			Code string `json:"error_code"`
		}
		unknown := ok && json.Unmarshal(store.Body, &answer) == nil && answer.Code == "INVALID_WEBHOOK_VERIFICATION_KEY_ID"
		if errors.Is(err, ErrNoKey) || unknown {
			return nil, refuse(Mismatch, "the key that the token names is not Plaid's")
		}
		return nil, err
	}
	var answer struct {
		Key json.RawMessage `json:"key"`
	}
	var state struct {
		Expired *int64 `json:"expired_at"`
	}
	var key jose.JSONWebKey
	if json.Unmarshal(text, &answer) != nil || json.Unmarshal(answer.Key, &state) != nil || json.Unmarshal(answer.Key, &key) != nil {
		return nil, errors.New("Plaid answered something that is no key") //nolint:staticcheck // a name
	}
	if state.Expired != nil && in.ReceivedAt.Unix() > *state.Expired {
		return nil, refuse(Mismatch, "the key that the token names has expired")
	}
	return []jose.JSONWebKey{key}, nil
}
