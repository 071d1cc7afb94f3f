package scheme

import (
	"encoding/json"
	"errors"
	"strconv"
)

// Graph verifies change notifications of Microsoft Graph. It is written in Go because the proof is
// in every item (clientState) and, for notifications with resource data, also in tokens next to the
// items.
type Graph struct{}

// Check accepts a clientState of at most 128 characters.
func (Graph) Check(secret []byte) error {
	if len(secret) > 128 {
		return errors.New("is longer than a clientState may be (128)")
	}
	return nil
}

// Prepare checks the settings of the tokens.
func (Graph) Prepare(s Settings) error {
	if len(s["audience"]) > 0 && len(s["issuer"]) == 0 {
		return errors.New("setting issuer is missing: https://sts.windows.net/<tenant>/")
	}
	return JWT{}.Prepare(s)
}

var graphNames = []string{"value", "clientState", "validationTokens", "encryptedContent"}

// maxNotifications is how many notifications a delivery may contain.
const maxNotifications = 5000

// Verify checks every item. If the source has an audience, it also checks every token.
func (Graph) Verify(in *Input) (Result, error) {
	if err := unambiguous(in.Body, graphNames); err != nil {
		return Result{}, err
	}
	var body struct {
		Value []struct {
			ClientState string          `json:"clientState"`
			Encrypted   json.RawMessage `json:"encryptedContent"`
		} `json:"value"`
		Tokens []string `json:"validationTokens"`
	}
	if json.Unmarshal(in.Body, &body) != nil || len(body.Value) == 0 {
		return Result{}, refuse(Malformed, "the body contains no notifications")
	}
	if len(body.Value) > maxNotifications || len(body.Tokens) > 64 {
		return Result{}, refuse(Malformed, "the body contains too many notifications")
	}
	var result Result
	rich := false
	for i := range body.Value {
		item := &body.Value[i]
		rich = rich || len(item.Encrypted) > 0
		where := "item " + strconv.Itoa(i)
		if item.ClientState == "" {
			return Result{}, refuse(Unsigned, where+" has no clientState")
		}
		found := false
		for _, s := range in.Secrets {
			if same(item.ClientState, string(s.Value)) && !found {
				result.Secret, found = s.Name, true
			}
		}
		if !found {
			return Result{}, refuse(Mismatch, "no live secret matches the clientState of "+where)
		}
	}
	if len(in.Settings["audience"]) == 0 {
		return result, nil
	}
	if rich && len(body.Tokens) == 0 {
		return Result{}, refuse(Unsigned, "there is resource data, but no validation token")
	}
	token := *in
	token.Secrets = nil
	for i, text := range body.Tokens {
		_, payload, err := token.token(text, "token "+strconv.Itoa(i))
		if err != nil {
			return Result{}, err
		}
		if _, err := token.claims(payload); err != nil {
			return Result{}, err
		}
	}
	return result, nil
}

// Sign sets the clientState of every item.
func (Graph) Sign(in *Input, secret []byte) error {
	var whole map[string]any
	if err := json.Unmarshal(in.Body, &whole); err != nil {
		return errors.New("the body is not JSON")
	}
	items, _ := whole["value"].([]any)
	if len(items) == 0 {
		return errors.New("the body contains no notifications")
	}
	for _, raw := range items {
		item, ok := raw.(map[string]any)
		if !ok {
			return errors.New("a notification is no object")
		}
		item["clientState"] = string(secret)
	}
	text, err := json.Marshal(whole)
	if err != nil {
		return errors.New("the body cannot be written")
	}
	in.Body = text
	return nil
}
