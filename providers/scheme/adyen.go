package scheme

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// Adyen verifies the notifications of Adyen's payments. It is written in Go because every item of a
// delivery contains its own signature, over eight of its fields.
//
// A source may require basic authentication as well (setting basic, user:password), which also
// protects the fields that the signature does not cover.
type Adyen struct{}

type adyenItem struct {
	PSPReference        string `json:"pspReference"`
	OriginalReference   string `json:"originalReference"`
	MerchantAccountCode string `json:"merchantAccountCode"`
	MerchantReference   string `json:"merchantReference"`
	Amount              struct {
		Value    json.Number `json:"value"`
		Currency string      `json:"currency"`
	} `json:"amount"`
	EventCode      string          `json:"eventCode"`
	Success        json.RawMessage `json:"success"`
	AdditionalData struct {
		Signature string `json:"hmacSignature"`
	} `json:"additionalData"`
}

type adyenBody struct {
	Items []struct {
		Item adyenItem `json:"NotificationRequestItem"`
	} `json:"notificationItems"`
}

// message returns the text that Adyen signs. Nothing in it is escaped, as in Adyen's own libraries.
func (i *adyenItem) message() string {
	success := strings.Trim(string(i.Success), `"`)
	return strings.Join([]string{
		i.PSPReference, i.OriginalReference, i.MerchantAccountCode, i.MerchantReference,
		i.Amount.Value.String(), i.Amount.Currency, i.EventCode, success,
	}, ":")
}

// Check requires hex.
func (Adyen) Check(secret []byte) error {
	if key, err := hex.DecodeString(string(secret)); err != nil || len(key) == 0 {
		return errors.New("is not hex")
	}
	return nil
}

// Prepare checks the setting basic.
func (Adyen) Prepare(s Settings) error {
	if basic := s.One("basic"); basic != "" && !strings.Contains(basic, ":") {
		return errors.New("setting basic is not user:password")
	}
	return nil
}

// Covers returns the signed fields.
func (Adyen) Covers() []string {
	const item = "json:NotificationRequestItem."
	return []string{
		item + "pspReference", item + "originalReference", item + "merchantAccountCode", item + "merchantReference",
		item + "amount.value", item + "amount.currency", item + "eventCode", item + "success",
	}
}

// maxAdyenItems is how many items a delivery may have. Adyen sends one, rarely six.
const maxAdyenItems = 256

// Verify checks every item, and refuses the delivery if one is wrong. It parses the items before
// anything is authenticated, because the signatures are inside them.
func (Adyen) Verify(in *Input) (Result, error) {
	if err := in.basic(in.Settings.One("basic")); err != nil {
		return Result{}, err
	}
	var body adyenBody
	if err := unambiguous(in.Body, adyenNames); err != nil {
		return Result{}, err
	}
	if err := json.Unmarshal(in.Body, &body); err != nil || len(body.Items) == 0 {
		return Result{}, refuse(Malformed, "the body contains no notification items")
	}
	if len(body.Items) > maxAdyenItems {
		return Result{}, refuse(Malformed, "the body holds more than 256 notification items")
	}
	var result Result
	for i := range body.Items {
		item := &body.Items[i].Item
		where := "item " + strconv.Itoa(i)
		if item.AdditionalData.Signature == "" {
			return Result{}, refuse(Unsigned, where+" has no hmacSignature")
		}
		sum, err := base64.StdEncoding.Strict().DecodeString(item.AdditionalData.Signature)
		if err != nil || len(sum) != sha256.Size {
			return Result{}, refuse(Malformed, where+" has a signature that cannot be read")
		}
		name, ok := "", false
		for _, s := range in.Secrets {
			if hmac.Equal(adyenMAC(item, s.Value), sum) && !ok {
				name, ok = s.Name, true
			}
		}
		if !ok {
			return Result{}, refuse(Mismatch, "no live secret matches "+where)
		}
		result.Secret = name
	}
	return result, nil
}

func adyenMAC(item *adyenItem, secret []byte) []byte {
	key, err := hex.DecodeString(string(secret))
	if err != nil {
		return nil
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(item.message()))
	return mac.Sum(nil)
}

// basic checks the basic authentication, if the source requires one.
func (in *Input) basic(want string) error {
	if want == "" {
		return nil
	}
	value, err := in.needed("Authorization", Unsigned)
	if err != nil {
		return err
	}
	word, rest, _ := strings.Cut(value, " ")
	plain, err := base64.StdEncoding.Strict().DecodeString(strings.Trim(rest, " "))
	if err != nil || !strings.EqualFold(word, "Basic") {
		return refuse(Malformed, "header Authorization has no basic credential that can be read")
	}
	if !same(string(plain), want) {
		return refuse(Mismatch, "the basic credential is another")
	}
	return nil
}

var adyenNames = []string{
	"notificationItems", "NotificationRequestItem", "pspReference", "originalReference", "merchantAccountCode", "merchantReference",
	"amount", "value", "currency", "eventCode", "success", "additionalData", "hmacSignature",
}

// unambiguous refuses a document that contains one of the names in a different case, or twice in
// one object. The decoder matches names without regard to case, so later code could otherwise read
// a value other than the verified one.
func unambiguous(body []byte, names []string) error {
	exact := map[string]string{}
	for _, name := range names {
		exact[strings.ToLower(name)] = name
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	type level struct {
		keys  map[string]bool // nil in an array
		value bool            // the next token of an object is a value
	}
	var open []level
	for {
		token, err := decoder.Token() // strings are decoded: an escaped key is the same key
		if err != nil {
			if len(open) == 0 {
				return nil // the caller finds out that the body is not JSON
			}
			return refuse(Malformed, "the body is not JSON")
		}
		if delimiter, ok := token.(json.Delim); ok && (delimiter == '}' || delimiter == ']') {
			open = open[:len(open)-1]
			continue
		}
		if n := len(open); n > 0 && open[n-1].keys != nil {
			if !open[n-1].value {
				name, _ := token.(string)
				if is, read := exact[strings.ToLower(name)]; read {
					if is != name || open[n-1].keys[is] {
						return refuse(Malformed, "the body has "+is+" twice, or in another case")
					}
					open[n-1].keys[is] = true
				}
				open[n-1].value = true
				continue
			}
			open[n-1].value = false
		}
		if delimiter, ok := token.(json.Delim); ok {
			if len(open) > 64 {
				return refuse(Malformed, "the body nests too deeply")
			}
			next := level{}
			if delimiter == '{' {
				next.keys = map[string]bool{}
			}
			open = append(open, next)
		}
	}
}

// Sign adds a signature to every item.
func (Adyen) Sign(in *Input, secret []byte) error {
	var body adyenBody
	if err := json.Unmarshal(in.Body, &body); err != nil || len(body.Items) == 0 {
		return errors.New("the body contains no notification items")
	}
	var whole map[string]any
	decoder := json.NewDecoder(bytes.NewReader(in.Body))
	decoder.UseNumber()
	if err := decoder.Decode(&whole); err != nil {
		return errors.New("the body is not JSON")
	}
	items, _ := whole["notificationItems"].([]any)
	for i, raw := range items {
		outer, _ := raw.(map[string]any)
		item, _ := outer["NotificationRequestItem"].(map[string]any)
		if item == nil {
			return errors.New("an item contains no NotificationRequestItem")
		}
		data, _ := item["additionalData"].(map[string]any)
		if data == nil {
			data = map[string]any{}
		}
		data["hmacSignature"] = base64.StdEncoding.EncodeToString(adyenMAC(&body.Items[i].Item, secret))
		item["additionalData"] = data
	}
	text, err := json.Marshal(whole)
	if err != nil {
		return errors.New("the body cannot be written")
	}
	in.Body = text
	if basic := in.Settings.One("basic"); basic != "" {
		in.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(basic)))
	}
	return nil
}
