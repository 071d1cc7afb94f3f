package scheme

import (
	"encoding/json"
	"errors"
)

// The settings of PayPal's postback.
const (
	postbackSetting  = "postback"
	postbackIDName   = "postback_client_id"
	postbackKeyName  = "postback_client_secret"
	postbackQuestion = "/v1/notifications/verify-webhook-signature"
	postbackGrant    = "/v1/oauth2/token"
)

// postbackHost is where PayPal is asked, by what the setting says.
func postbackHost(place string) string {
	switch place {
	case "live":
		return "api-m.paypal.com"
	case "sandbox":
		return "api-m.sandbox.paypal.com"
	}
	return ""
}

// checkPostback refuses a postback that could not be made, and credentials that
// none would use.
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

// postback asks PayPal whether it sent the request, which the signature cannot
// say of the body. Only PayPal's plain no is a refusal; whatever else goes wrong
// is a fault, and the sender is to come again.
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

// postbackBody is the question, with the event in it byte for byte. It is put
// together by hand because encoding/json rewrites what is raw: it drops the spaces
// and escapes <, > and &, and PayPal then finds another checksum.
func postbackBody(headers map[string]string, webhook string, event []byte) ([]byte, error) {
	if !json.Valid(event) { // it could end the question and begin another
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
