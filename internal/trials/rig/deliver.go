package rig

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Deliver posts a body, signed as Stripe signs, once, and gives the status of the
// answer.
func Deliver(ctx context.Context, client *http.Client, url, secret string, body []byte) (int, error) {
	status, _, err := post(ctx, client, url, body, map[string]string{
		"Content-Type": "application/json; charset=utf-8", "Stripe-Signature": StripeSignature(secret, time.Now(), body),
	})
	return status, err
}

// DeliverStandard posts a body under an id, signed by Standard Webhooks, once, and gives
// the status and the body of the answer.
func DeliverStandard(ctx context.Context, client *http.Client, url string, key []byte, id string, body []byte) (int, []byte, error) {
	now := time.Now()
	return post(ctx, client, url, body, map[string]string{
		"Content-Type": "application/json", "Webhook-Id": id, "Webhook-Timestamp": strconv.FormatInt(now.Unix(), 10),
		"Webhook-Signature": StandardSignature(key, id, now, body),
	})
}

func post(ctx context.Context, client *http.Client, url string, body []byte, header map[string]string) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("delivering to %s: %w", url, err)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("delivering to %s: %w", url, err)
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(resp.Body); err != nil {
		return 0, nil, fmt.Errorf("reading the answer of %s: %w", url, err)
	}
	return resp.StatusCode, answer, nil
}
