package scheme

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// plaidKey fetches one key from Plaid. It is written in Go because Plaid publishes no set of keys
// and requires an authenticated call for each one. The secret of the source is client_id:secret.
func (in *Input) plaidKey(id string) ([]jose.JSONWebKey, KeyRequest, error) {
	switch {
	case id == "":
		return nil, KeyRequest{}, refuse(Malformed, "the token names no key")
	case !plaidID.MatchString(id):
		return nil, KeyRequest{}, refuse(Mismatch, "the key that the token names is not Plaid's")
	case len(in.Secrets) == 0:
		return nil, KeyRequest{}, errors.New("asking Plaid for a key needs client_id:secret")
	}
	client, secret, _ := strings.Cut(string(in.Secrets[0].Value), ":")
	body, err := json.Marshal(map[string]string{"client_id": client, "secret": secret, "key_id": id})
	if err != nil {
		return nil, KeyRequest{}, errors.New("the question to Plaid cannot be written")
	}
	want := KeyRequest{URL: in.Settings.One("keys_url"), Hosts: in.Settings["hosts"], Body: body, Claimed: true, Check: func(document []byte) error {
		_, _, err := plaidAnswer(document)
		return err
	}}
	text, err := in.fetch(want)
	if err != nil {
		store, ok := errors.AsType[*StoreError](err)
		var answer struct {
			Code string `json:"error_code"`
		}
		unknown := ok && json.Unmarshal(store.Body, &answer) == nil && answer.Code == "INVALID_WEBHOOK_VERIFICATION_KEY_ID"
		if errors.Is(err, ErrNoKey) || unknown {
			return nil, want, refuse(Mismatch, "the key that the token names is not Plaid's")
		}
		return nil, want, err
	}
	key, expired, err := plaidAnswer(text)
	if err != nil {
		return nil, want, err
	}
	if expired != nil && in.ReceivedAt.Unix() > *expired {
		return nil, want, refuse(Mismatch, "the key that the token names has expired")
	}
	return []jose.JSONWebKey{key}, want, nil
}

// plaidID matches a key's id. The documented ones are UUIDs.
var plaidID = regexp.MustCompile(`^[0-9A-Za-z_-]{1,64}$`)

// plaidAnswer parses a key and the second, in Unix time, at which the key expired. expired is nil
// if the key has not expired.
func plaidAnswer(document []byte) (key jose.JSONWebKey, expired *int64, err error) {
	var answer struct {
		Key json.RawMessage `json:"key"`
	}
	var state struct {
		Expired *int64 `json:"expired_at"`
	}
	if json.Unmarshal(document, &answer) != nil || json.Unmarshal(answer.Key, &state) != nil || json.Unmarshal(answer.Key, &key) != nil {
		return key, nil, errors.New("Plaid answered something that is no key") //nolint:staticcheck // a name
	}
	return key, state.Expired, nil
}
