package rig_test

import (
	"testing"
	"time"

	"github.com/oncegate/oncegate/cmd/internal/rig"
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
