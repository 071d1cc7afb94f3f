package providers_test

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog"
)

// One request is verified with the secrets of its source and the time at which it was received.
// Nothing is stored and no clock is read, so a delivery of years ago verifies as it did then.
func ExampleProvider_Verify() {
	known, err := catalog.Load()
	if err != nil {
		fmt.Println(err)
		return
	}
	secrets := []providers.Secret{{Name: "current", Value: []byte("whsec_test")}}
	request := &providers.Request{
		Method: http.MethodPost,
		Header: http.Header{"Stripe-Signature": {"t=1700000000,v1=8ad3ccd6627d4c5ccaca4879744c3321eb0c9d89da2714501614c0a82c36c505"}},
		Body:   []byte(`{"id":"evt_1","object":"event","type":"invoice.paid"}`),
		// Within Stripe's tolerance of five minutes.
		ReceivedAt: time.Unix(1700000010, 0),
	}
	delivery, err := known["stripe"].Verify(request, secrets)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(delivery.Items[0].EventID, delivery.Items[0].Type, delivery.SignedAt.Unix(), delivery.Secret)

	request.Body = []byte(`{"id":"evt_1","object":"event","type":"invoice.voided"}`)
	_, err = known["stripe"].Verify(request, secrets)
	refusal, _ := errors.AsType[*providers.Refusal](err)
	fmt.Println(refusal.Reason)
	// Output:
	// evt_1 invoice.paid 1700000000 current
	// mismatch
}

// A delivery for a test is signed as the sender signs it.
func ExampleProvider_Sign() {
	known, err := catalog.Load()
	if err != nil {
		fmt.Println(err)
		return
	}
	request := &providers.Request{
		Method: http.MethodPost, URL: "https://hooks.example/in/standard-webhooks", Header: http.Header{},
		Body: []byte(`{"type":"user.created"}`), ReceivedAt: time.Unix(1700000000, 0),
	}
	secret := providers.Secret{Name: "test", Value: []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")}
	if err := known["standard-webhooks"].Sign(request, secret, "msg_1"); err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
		fmt.Println(name+":", request.Header.Get(name))
	}
	delivery, err := known["standard-webhooks"].Verify(request, []providers.Secret{secret})
	fmt.Println(delivery.Items[0].EventID, delivery.Items[0].Type, err)
	// Output:
	// webhook-id: msg_1
	// webhook-timestamp: 1700000000
	// webhook-signature: v1,kOj2q0zEj64xJ4CFAG8P/pkBWowoZLHSfYwlNdsAFT8=
	// msg_1 user.created <nil>
}

// A sender that the catalogue does not have is a few lines of YAML: how it signs, and where the
// id and the type of an event are. A configuration takes the same lines under providers.
func ExampleParse() {
	acme, err := providers.Parse("acme", []byte(`
title: Acme
verify:
  family: hmac
  authenticates: body
  signature: { headers: [x-acme-signature], schemes: [{ algorithm: hmac-sha256, encoding: hex }] }
  signed: [body]
identity:
  candidates: [{ json: event.id }]
type: [{ json: event.kind }]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	secret := providers.Secret{Name: "test", Value: []byte("a secret that Acme shows once")}
	request := &providers.Request{
		Method: http.MethodPost, Header: http.Header{}, ReceivedAt: time.Unix(1700000000, 0),
		Body: []byte(`{"event":{"id":"42","kind":"parcel.sent"}}`),
	}
	if err := acme.Sign(request, secret, ""); err != nil {
		fmt.Println(err)
		return
	}
	delivery, err := acme.Verify(request, []providers.Secret{secret})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(delivery.Items[0].EventID, delivery.Items[0].Type, delivery.IDUnsigned)
	// Output:
	// 42 parcel.sent false
}
