package rig

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Deliver posts a body, signed as Stripe signs, once, and gives the status of the
// answer.
func Deliver(ctx context.Context, client *http.Client, url, secret string, body []byte) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("delivering to %s: %w", url, err)
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("Stripe-Signature", StripeSignature(secret, time.Now(), body))
	resp, err := client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("delivering to %s: %w", url, err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, fmt.Errorf("reading the answer of %s: %w", url, err)
	}
	return resp.StatusCode, nil
}
