package rig_test

import (
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// The expected value is openssl's: printf '1700000000.{"id":"evt_1"}' | openssl
// dgst -sha256 -hmac whsec_test, which prints it in hex.
func TestStripeSignature(t *testing.T) {
	t.Parallel()
	got := rig.StripeSignature("whsec_test", time.Unix(1700000000, 0), []byte(`{"id":"evt_1"}`))
	const want = "t=1700000000,v1=c89214b5b5da833daed6f0b8c5bb6bd58cea9022bd80ccc78230f3942d632925"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// printf '{"a":1}' | openssl dgst -sha256 -hmac secret, and
// printf 'msg_1.1700000000.{"a":1}' | openssl dgst -sha256 -hmac secret -binary | base64.
func TestOtherSignatures(t *testing.T) {
	t.Parallel()
	if got, want := rig.GitHubSignature("secret", []byte(`{"a":1}`)), "sha256=aa9e2e3575f5d7098b6caccd790888c36d5fdb63342a73bada2d6a51747a8494"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := rig.StandardSignature([]byte("secret"), "msg_1", time.Unix(1700000000, 0), []byte(`{"a":1}`)), "v1,Q5nZ7DiOGwijBBqvBVAK6c0zDr2JLkXI7TaV4f+Q2vY="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
