package scheme

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
)

// MercadoPago verifies a signature over the id of the notification's subject, the id of the request
// and a time. The signature covers nothing of the body. It is written in Go because the time is in
// seconds or milliseconds, an absent part is left out together with its name, and an id with
// letters may be signed in lower case.
type MercadoPago struct{}

// Check accepts any secret.
func (MercadoPago) Check([]byte) error { return nil }

// Prepare checks nothing.
func (MercadoPago) Prepare(Settings) error { return nil }

const (
	mercadoPagoHeader  = "X-Signature"
	mercadoPagoRequest = "X-Request-Id"
	mercadoPagoSubject = "data.id"
)

// Covers returns the header of the request's id, which identifies the event. The body is not
// signed.
func (MercadoPago) Covers() []string { return []string{"header:" + mercadoPagoRequest} }

// Verify compares the signature v1. It ignores other versions and labels.
func (MercadoPago) Verify(in *Input) (Result, error) {
	value, err := in.needed(mercadoPagoHeader, Unsigned)
	if err != nil {
		return Result{}, err
	}
	request, err := in.needed(mercadoPagoRequest, Malformed)
	if err != nil {
		return Result{}, err
	}
	stamp, signature, ok := mercadoPagoItems(value)
	if !ok {
		return Result{}, refuse(Malformed, "header "+mercadoPagoHeader+" is not of the form ts=TIME,v1=SIGNATURE")
	}
	at, ok := milliseconds(stamp)
	if len(stamp) == len("1700000000") {
		at, ok = seconds(stamp)
	} else if len(stamp) != len("1700000000000") {
		ok = false
	}
	if !ok {
		return Result{}, refuse(Malformed, "header "+mercadoPagoHeader+" has no timestamp in seconds or milliseconds")
	}
	sum, decodeErr := hex.DecodeString(signature)
	if decodeErr != nil || len(sum) != sha256.Size || hex.EncodeToString(sum) != signature {
		return Result{}, refuse(Malformed, "header "+mercadoPagoHeader+" has no signature in hex")
	}
	subject, err := mercadoPagoID(in)
	if err != nil {
		return Result{}, err
	}
	name, ok := in.match(func(secret []byte) bool {
		as := hmac.Equal(mercadoPagoSum(secret, subject, request, stamp), sum)
		lower := hmac.Equal(mercadoPagoSum(secret, strings.ToLower(subject), request, stamp), sum)
		return as || lower
	})
	if !ok {
		return Result{}, refuse(Mismatch, "no live secret matches header "+mercadoPagoHeader)
	}
	return Result{Secret: name, SignedAt: at}, in.fresh(at)
}

// mercadoPagoItems parses the two items, each of which must be present once.
func mercadoPagoItems(value string) (stamp, signature string, ok bool) {
	for item := range strings.SplitSeq(value, ",") {
		label, rest, found := strings.Cut(strings.TrimSpace(item), "=")
		if !found {
			return "", "", false
		}
		var into *string
		switch label {
		case "ts":
			into = &stamp
		case "v1":
			into = &signature
		default:
			continue
		}
		if *into != "" {
			return "", "", false
		}
		*into = rest
	}
	return stamp, signature, stamp != "" && signature != ""
}

// mercadoPagoID returns the id of the notification's subject from the address.
func mercadoPagoID(in *Input) (string, error) {
	u, err := url.Parse(in.URL)
	if err != nil {
		return "", refuse(Mismatch, "the address cannot be read")
	}
	values := u.Query()[mercadoPagoSubject]
	switch {
	case len(values) > 1:
		return "", refuse(Malformed, "query "+mercadoPagoSubject+" is present more than once")
	case len(values) == 0:
		return "", nil
	case strings.ContainsAny(values[0], ";:"):
		return "", refuse(Malformed, "query "+mercadoPagoSubject+" is not an id")
	}
	return values[0], nil
}

func mercadoPagoSum(secret []byte, subject, request, stamp string) []byte {
	mac := hmac.New(sha256.New, secret)
	if subject != "" {
		mac.Write([]byte("id:" + subject + ";"))
	}
	mac.Write([]byte("request-id:" + request + ";ts:" + stamp + ";"))
	return mac.Sum(nil)
}

// Sign signs as Mercado Pago does, with a time in milliseconds.
func (MercadoPago) Sign(in *Input, secret []byte) error {
	subject, err := mercadoPagoID(in)
	if err != nil {
		return err
	}
	request, err := in.needed(mercadoPagoRequest, Malformed)
	if err != nil {
		return err
	}
	stamp := strconv.FormatInt(in.ReceivedAt.UnixMilli(), 10)
	in.Header.Set(mercadoPagoHeader, "ts="+stamp+",v1="+hex.EncodeToString(mercadoPagoSum(secret, subject, request, stamp)))
	return nil
}
