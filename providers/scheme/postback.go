package scheme

import (
	"encoding/json"
	"errors"
)

// These are the settings and paths of PayPal's postback.
const (
	postbackSetting  = "postback"
	postbackIDName   = "postback_client_id"
	postbackKeyName  = "postback_client_secret"
	postbackQuestion = "/v1/notifications/verify-webhook-signature"
	postbackGrant    = "/v1/oauth2/token"
)

// postbackHost returns the host that is asked, or an empty string for an unknown place.
func postbackHost(place string) string {
	switch place {
	case "live":
		return "api-m.paypal.com"
	case "sandbox":
		return "api-m.sandbox.paypal.com"
	}
	return ""
}

// checkPostback refuses incomplete postback settings, and credentials without the setting postback.
func checkPostback(s Settings) error {
	place, id, key := s[postbackSetting], s[postbackIDName], s[postbackKeyName]
	switch {
	case len(place) == 0 && len(id)+len(key) > 0:
		return errors.New("setting " + postbackSetting + " is missing: without it nothing uses " + postbackIDName + " and " + postbackKeyName)
	case len(place) == 0:
		return nil
	case len(place) > 1 || postbackHost(place[0]) == "":
		return errors.New("setting " + postbackSetting + " must be live or sandbox")
	case len(id) != 1 || len(key) != 1:
		return errors.New("setting " + postbackSetting + " needs one " + postbackIDName + " and one " + postbackKeyName + ", those of the app that the webhook belongs to")
	}
	return nil
}

// postback asks PayPal whether it sent the request, because the signature does not prove that for
// the body. Only PayPal's answer FAILURE is a refusal. Every other problem is a fault, after which
// the sender retries.
func (in *Input) postback(headers map[string]string) error {
	host := postbackHost(in.Settings.One(postbackSetting))
	if host == "" {
		return nil
	}
	question, err := postbackBody(headers, in.Settings.One("webhook_id"), in.Body)
	if err != nil {
		return err
	}
	text, err := in.ask(&Question{
		URL: "https://" + host + postbackQuestion, Hosts: []string{host}, Body: question,
		Grant: Grant{URL: "https://" + host + postbackGrant, ID: in.Settings.One(postbackIDName), Secret: in.Settings.One(postbackKeyName)},
	})
	if err != nil {
		return err
	}
	var answer struct {
		Status string `json:"verification_status"`
	}
	if json.Unmarshal(text, &answer) == nil {
		switch answer.Status {
		case "SUCCESS":
			return nil
		case "FAILURE":
			return refuse(Mismatch, "PayPal was asked, and did not send this")
		}
	}
	return errors.New("PayPal was asked, and answered something that is no verdict")
}

// postbackBody returns the question with the event's unchanged bytes. It does not use encoding/json
// for the event, because that removes spaces and escapes <, > and &, and PayPal would then compute
// another checksum.
func postbackBody(headers map[string]string, webhook string, event []byte) ([]byte, error) {
	if !json.Valid(event) { // another body could close the question's object and add members
		return nil, refuse(Mismatch, "the body is not JSON, and PayPal sends nothing else")
	}
	out, err := json.Marshal(map[string]string{
		"auth_algo": headers["Paypal-Auth-Algo"], "cert_url": headers["Paypal-Cert-Url"],
		"transmission_id": headers["Paypal-Transmission-Id"], "transmission_sig": headers["Paypal-Transmission-Sig"],
		"transmission_time": headers["Paypal-Transmission-Time"], "webhook_id": webhook,
	})
	if err != nil {
		return nil, errors.New("the question to PayPal cannot be written")
	}
	out = append(out[:len(out)-1], `,"webhook_event":`...)
	return append(append(out, event...), '}'), nil
}
