package forward

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// signingKey decodes a secret. The part after "whsec_" is base64; any other secret is used
// unchanged.
func signingKey(secret string) ([]byte, error) {
	encoded, prefixed := strings.CutPrefix(secret, "whsec_")
	if !prefixed {
		if secret == "" {
			return nil, errors.New("it is empty")
		}
		return []byte(secret), nil
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.New("what follows whsec_ is not base64")
	}
	if len(key) == 0 {
		return nil, errors.New("it is empty")
	}
	return key, nil
}

// sign adds the headers of Standard Webhooks. The id is the idempotency key: each effect has one,
// the same in all attempts, and a new one if the effect is sent again under a new key. The event's
// own id is not suitable: a consumer that deduplicates by it would ignore the second of two routes,
// and an effect that was sent again on purpose. The timestamp is the time of the attempt.
func (f *Sender) sign(h http.Header, id string, body []byte) { sign(h, f.keys, f.cfg.Now, id, body) }

func sign(h http.Header, keys [][]byte, now func() time.Time, id string, body []byte) {
	if len(keys) == 0 {
		return
	}
	timestamp := strconv.FormatInt(now().Unix(), 10)
	signatures := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", timestamp)
	h.Set("Webhook-Signature", strings.Join(signatures, " "))
}
