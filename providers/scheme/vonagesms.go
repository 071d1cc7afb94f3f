package scheme

import (
	"crypto/hmac"
	"crypto/md5"  //nolint:gosec // an account may have chosen it
	"crypto/sha1" //nolint:gosec // an account may have chosen it
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"hash"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// VonageSMS verifies a signature over a message's fields that is itself a field. It is written in
// Go because Vonage rewrites the fields before it signs them, and sends them in a form or a query.
//
// Option algorithm: md5hash (a digest with the secret at its end), or the HMACs md5, sha1, sha256
// and sha512. It is a setting of the Vonage account, and no request contains it.
// md5, sha1, sha256 and sha512. It is a setting of the account; no request says it.
type VonageSMS struct{}

// Check accepts any secret, the account's signature secret.
func (VonageSMS) Check([]byte) error { return nil }

var vonageHashes = map[string]func() hash.Hash{
	"md5hash": md5.New, "md5": md5.New, "sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New,
}

// Prepare checks the algorithm.
func (VonageSMS) Prepare(s Settings) error {
	if len(s["algorithm"]) != 1 || vonageHashes[s.One("algorithm")] == nil {
		return errors.New("algorithm is not one of md5hash, md5, sha1, sha256, sha512")
	}
	return nil
}

const vonageField = "sig"

// Verify compares the signature over the sorted fields.
func (VonageSMS) Verify(in *Input) (Result, error) {
	fields, err := vonageFields(in)
	if err != nil {
		return Result{}, err
	}
	values := fields[vonageField]
	if len(values) == 0 || values[0] == "" {
		return Result{}, refuse(Unsigned, "field "+vonageField+" is missing")
	}
	newHash := vonageHashes[in.Settings.One("algorithm")]
	sum, decodeErr := hex.DecodeString(values[0])
	if decodeErr != nil || len(values) > 1 || len(sum) != newHash().Size() {
		return Result{}, refuse(Malformed, "field "+vonageField+" is not a signature in hex")
	}
	message := vonageMessage(fields)
	name, ok := in.match(func(secret []byte) bool { return hmac.Equal(vonageSum(in, secret, message), sum) })
	if !ok {
		return Result{}, refuse(Mismatch, "no live secret matches field "+vonageField)
	}
	at, ok := seconds(fields.Get("timestamp"))
	if !ok {
		return Result{}, refuse(Malformed, "field timestamp is no time")
	}
	return Result{Secret: name, SignedAt: at, Values: fields}, in.fresh(at)
}

// vonageFields returns the fields of the body, or those of the query if there is no body.
func vonageFields(in *Input) (url.Values, error) {
	if len(in.Body) > 0 {
		form, err := readForm(in.Body)
		if err != nil {
			return nil, refuse(Malformed, "the body is no form")
		}
		return form, nil
	}
	u, err := url.Parse(in.URL)
	if err != nil {
		return nil, refuse(Malformed, "the address cannot be read")
	}
	return u.Query(), nil
}

func vonageMessage(fields url.Values) string {
	clean := strings.NewReplacer("&", "_", "=", "_")
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name == vonageField {
			continue
		}
		for _, value := range fields[name] {
			b.WriteString("&" + name + "=" + clean.Replace(value))
		}
	}
	return b.String()
}

func vonageSum(in *Input, secret []byte, message string) []byte {
	algorithm := in.Settings.One("algorithm")
	if algorithm == "md5hash" {
		sum := md5.Sum([]byte(message + string(secret))) //nolint:gosec // the account's choice
		return sum[:]
	}
	mac := hmac.New(vonageHashes[algorithm], secret)
	mac.Write([]byte(message))
	return mac.Sum(nil)
}

// Sign sets the fields for time and signature.
func (VonageSMS) Sign(in *Input, secret []byte) error {
	fields, err := vonageFields(in)
	if err != nil {
		return err
	}
	fields.Set("timestamp", strconv.FormatInt(in.ReceivedAt.Unix(), 10))
	fields.Del(vonageField)
	fields.Set(vonageField, hex.EncodeToString(vonageSum(in, secret, vonageMessage(fields))))
	if len(in.Body) > 0 {
		in.Body = []byte(fields.Encode())
		return nil
	}
	address, _, _ := strings.Cut(in.URL, "?")
	in.URL = address + "?" + fields.Encode()
	return nil
}
