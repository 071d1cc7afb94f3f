package inbox_test

import (
	"testing"

	"github.com/oncegate/oncegate/inbox"
)

// The expected values are OpenSSL's: printf '4:shop6:charge6:recipe' | openssl dgst -sha256 [-hmac 'a secret'] -binary | base64,
// with - and _ for + and /. A key that changes is a charge that happens twice.
func TestMeaningKeyIsStable(t *testing.T) {
	t.Parallel()
	for secret, want := range map[string]string{
		"":         "og2_u6UNXUPh9l9Ygin5H1EMFddTahmeZnL3ouD6vErp5HU",
		"a secret": "og2_5EEkwsNiQrCQRhnMGCaXsh2iMrIEu60iDqAJ6uH7iqw",
	} {
		var key []byte
		if secret != "" {
			key = []byte(secret)
		}
		if got := inbox.MeaningKey(key, "shop", "charge", []byte("recipe")); got != want {
			t.Errorf("with the secret %q: %s, want %s", secret, got, want)
		}
	}
	if inbox.MeaningKey(nil, "shop", "charge", []byte("x")) == inbox.MeaningKey(nil, "shopc", "harge", []byte("x")) {
		t.Error("the parts run into each other")
	}
}
