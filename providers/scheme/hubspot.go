package scheme

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

// HubSpot verifies version 3 of HubSpot's signature. It is written in Go because HubSpot decodes
// exactly twelve percent-encoded characters of the address before it signs.
type HubSpot struct{}

// Check accepts any secret, the app's client secret.
func (HubSpot) Check([]byte) error { return nil }

// Prepare checks nothing.
func (HubSpot) Prepare(Settings) error { return nil }

const (
	hubspotHeader = "X-HubSpot-Signature-v3"
	hubspotTime   = "X-HubSpot-Request-Timestamp"
)

var hubspotDecode = strings.NewReplacer("%3A", ":", "%2F", "/", "%3F", "?", "%40", "@", "%21", "!", "%24", "$",
	"%27", "'", "%28", "(", "%29", ")", "%2A", "*", "%2C", ",", "%3B", ";",
	"%3a", ":", "%2f", "/", "%3f", "?", "%2a", "*", "%2c", ",", "%3b", ";")

// Verify compares the signature over method, address, body and time.
func (HubSpot) Verify(in *Input) (Result, error) {
	value, err := in.needed(hubspotHeader, Unsigned)
	if err != nil {
		return Result{}, err
	}
	stamp, err := in.needed(hubspotTime, Malformed)
	if err != nil {
		return Result{}, err
	}
	at, ok := milliseconds(stamp)
	if !ok {
		return Result{}, refuse(Malformed, "header "+hubspotTime+" has no timestamp in milliseconds")
	}
	sum, decodeErr := base64.StdEncoding.Strict().DecodeString(value)
	if decodeErr != nil || len(sum) != sha256.Size {
		return Result{}, refuse(Malformed, "header "+hubspotHeader+" is not a signature in base64")
	}
	name, ok := in.match(func(secret []byte) bool { return hmac.Equal(hubspotSum(in, secret, stamp), sum) })
	if !ok {
		return Result{}, refuse(Mismatch, "no live secret matches header "+hubspotHeader)
	}
	return Result{Secret: name, SignedAt: at}, in.fresh(at)
}

func hubspotSum(in *Input, secret []byte, stamp string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(in.Method + hubspotDecode.Replace(in.URL)))
	mac.Write(in.Body)
	mac.Write([]byte(stamp))
	return mac.Sum(nil)
}

// Sign signs as HubSpot does.
func (HubSpot) Sign(in *Input, secret []byte) error {
	stamp := strconv.FormatInt(in.ReceivedAt.UnixMilli(), 10)
	in.Header.Set(hubspotTime, stamp)
	in.Header.Set(hubspotHeader, base64.StdEncoding.EncodeToString(hubspotSum(in, secret, stamp)))
	return nil
}

// match tries every secret and returns the name of the first that fits.
func (in *Input) match(fits func(secret []byte) bool) (name string, ok bool) {
	for _, s := range in.Secrets {
		if fits(s.Value) && !ok {
			name, ok = s.Name, true
		}
	}
	return name, ok
}

// milliseconds parses a time in its canonical form.
func milliseconds(s string) (time.Time, bool) { return number(s, time.UnixMilli) }

func seconds(s string) (time.Time, bool) {
	return number(s, func(n int64) time.Time { return time.Unix(n, 0) })
}

func number(s string, at func(int64) time.Time) (time.Time, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > 1e14 || strconv.FormatInt(n, 10) != s {
		return time.Time{}, false
	}
	t := at(n).UTC()
	return t, t.Year() <= 2200
}
