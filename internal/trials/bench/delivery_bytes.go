package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

const idLength = 28 // "evt_" and 24 hex digits

// request is a delivery that is laid out once. Only its id and signature are rewritten for each sending, so that the
// generator uses little of the machine.
type request struct {
	raw       []byte // as it goes over the wire
	body      []byte // part of raw
	id        []byte // part of body
	signature []byte // part of raw
	signed    []byte // "<unix>."
	secret    []byte
	run       uint32
}

// newRequest lays out a delivery with a body of size bytes. Each call has another run, and one generator never sends
// the same (run, connection, number) twice.
func newRequest(host string, run uint32, size int, at time.Time) *request {
	body := newBody(size)
	unix := strconv.FormatInt(at.Unix(), 10)
	head := fmt.Sprintf("POST /in/%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: Stripe/1.0 (+https://stripe.com/docs/webhooks)\r\n"+
		"Accept: */*\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: %d\r\nStripe-Signature: t=%s,v1=", sourceName, host, len(body), unix)
	r := &request{secret: []byte(secretValue), signed: []byte(unix + "."), run: run}
	r.raw = append(r.raw, head...)
	signature := len(r.raw)
	r.raw = append(r.raw, bytes.Repeat([]byte{'0'}, 64)...)
	r.raw = append(r.raw, "\r\n\r\n"...)
	start := len(r.raw)
	r.raw = append(r.raw, body...)
	r.signature = r.raw[signature : signature+64]
	r.body = r.raw[start:]
	r.id = r.body[len(`{"id":"`):][:idLength]
	return r
}

// number makes the request the n-th event of a connection.
func (r *request) number(connection, n int) []byte {
	var raw [12]byte
	for i, v := range []uint32{r.run, uint32(connection), uint32(n)} {
		raw[4*i], raw[4*i+1], raw[4*i+2], raw[4*i+3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
	}
	hex.Encode(r.id[4:], raw[:])
	mac := hmac.New(sha256.New, r.secret)
	mac.Write(r.signed)
	mac.Write(r.body)
	var sum [sha256.Size]byte
	hex.Encode(r.signature, mac.Sum(sum[:0]))
	return r.raw
}

// newBody returns an invoice.paid of size bytes. It is the same each time except for its date, because an old event
// would be held.
func newBody(size int) []byte {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same content each time
	body := []byte(`{"id":"evt_000000000000000000000000","object":"event","api_version":"2025-03-31.basil","created":` + strconv.FormatInt(time.Now().Unix(), 10) + `,` +
		`"livemode":true,"pending_webhooks":1,"request":{"id":null,"idempotency_key":null},"type":"invoice.paid","data":{"object":{` +
		`"id":"in_1Q2w3E4r5T6y7U8i9O0pAsDf","object":"invoice","currency":"eur","customer":"cus_Qa1Ws2Ed3Rf4Tg","total":4200,"lines":[`)
	const tail = `]}}}`
	for {
		line := fmt.Sprintf(`{"id":"il_%016x%08x","object":"line_item","amount":%d,"currency":"eur","description":"Subscription %06x","quantity":%d,"proration":false},`,
			random.Uint64(), random.Uint32(), random.IntN(100000), random.IntN(1<<24), random.IntN(9)+1)
		if len(body)+len(line)+len(tail)+len(`""`) > size {
			break
		}
		body = append(body, line...)
	}
	filler := make([]byte, size-len(body)-len(tail)-len(`""`))
	for i := range filler {
		filler[i] = "0123456789abcdefghijklmnopqrstuv"[random.IntN(32)]
	}
	body = append(append(append(body, '"'), filler...), '"')
	return append(body, tail...)
}
