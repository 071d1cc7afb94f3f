package scheme

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
)

// EventGrid verifies Azure Event Grid. It is written in Go because a source uses either a key in
// the address or a token of Microsoft Entra, and because the handshake is an event in an array.
type EventGrid struct{}

// Check accepts any key for the address.
func (EventGrid) Check([]byte) error { return nil }

// Secretless returns true if the source verifies tokens, that is, if it has an audience.
func (EventGrid) Secretless(s Settings) bool { return len(s["audience"]) > 0 }

// Prepare checks the settings of the token.
func (EventGrid) Prepare(s Settings) error {
	if len(s["audience"]) > 0 && len(s["issuer"]) == 0 {
		return errors.New("setting issuer is missing: https://sts.windows.net/<tenant>/ or https://login.microsoftonline.com/<tenant>/v2.0")
	}
	return JWT{}.Prepare(s)
}

// Verify checks the token if the source has an audience, and otherwise the key.
func (EventGrid) Verify(in *Input) (Result, error) {
	if len(in.Settings["audience"]) > 0 {
		token := *in
		token.Secrets = nil
		return JWT{}.Verify(&token)
	}
	if len(in.Secrets) == 0 {
		return Result{}, refuse(Mismatch, "there is neither a live secret nor setting audience")
	}
	u, err := url.Parse(in.URL)
	if err != nil {
		return Result{}, refuse(Malformed, "the address cannot be read")
	}
	given := u.Query()["key"]
	if len(given) != 1 || given[0] == "" {
		return Result{}, refuse(Unsigned, "query key is missing")
	}
	name, found := "", false
	for _, s := range in.Secrets {
		if same(given[0], string(s.Value)) && !found {
			name, found = s.Name, true
		}
	}
	if !found {
		return Result{}, refuse(Mismatch, "no live secret matches query key")
	}
	return Result{Secret: name}, nil
}

// Handshake answers the validation event. It requires no proof, because the answer only repeats a
// code to the client that sent it, and later deliveries of the subscription are verified.
func (EventGrid) Handshake(in *Input) (Reply, bool, error) {
	if in.Method != http.MethodPost || in.Header.Get("Aeg-Event-Type") != "SubscriptionValidation" {
		return Reply{}, false, nil
	}
	var events []struct {
		Type string `json:"eventType"`
		Data struct {
			Code string `json:"validationCode"`
		} `json:"data"`
	}
	_ = json.Unmarshal(in.Body, &events) // a body that cannot be parsed is not a validation event
	if len(events) != 1 || events[0].Type != "Microsoft.EventGrid.SubscriptionValidationEvent" {
		return Reply{}, false, nil
	}
	code := events[0].Data.Code
	if code == "" || len(code) > 256 {
		return Reply{}, true, refuse(Malformed, "the validation event has no code")
	}
	body, err := json.Marshal(map[string]string{"validationResponse": code})
	if err != nil {
		return Reply{}, true, refuse(Malformed, "the validation event has no code")
	}
	return Reply{Status: http.StatusOK, ContentType: "application/json", Body: body}, true, nil
}

// Sign adds the key to the address.
func (EventGrid) Sign(in *Input, secret []byte) error {
	u, err := url.Parse(in.URL)
	if err != nil {
		return errors.New("the address cannot be read")
	}
	query := u.Query()
	query.Set("key", string(secret))
	u.RawQuery = query.Encode()
	in.URL = u.String()
	return nil
}
