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

// NewClient is a client for so many deliveries at the same time.
func NewClient(connections int, timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout, Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
}

// Deliver posts a body once, signed now as Stripe signs, and returns the status of the answer.
func Deliver(ctx context.Context, client *http.Client, url, secret string, body []byte) (int, error) {
	status, _, err := Post(ctx, client, url, body, StripeHeader(secret, time.Now(), body))
	return status, err
}

// StripeHeader is the header of a delivery that Stripe has signed at a time.
func StripeHeader(secret string, at time.Time, body []byte) http.Header {
	return http.Header{"Content-Type": {"application/json; charset=utf-8"}, "Stripe-Signature": {StripeSignature(secret, at, body)}}
}

// StandardHeader is the header of a delivery that was signed at a time as Standard Webhooks prescribes.
func StandardHeader(key []byte, id string, at time.Time, body []byte) http.Header {
	return http.Header{
		"Content-Type": {"application/json"}, "Webhook-Id": {id}, "Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)},
		"Webhook-Signature": {StandardSignature(key, id, at, body)},
	}
}

// Post sends a request and returns the status and the body of the answer.
func Post(ctx context.Context, client *http.Client, url string, body []byte, header http.Header) (status int, answer []byte, err error) {
	return post(ctx, client, url, body, header, false)
}

// PostOnce is [Post] for a caller that counts what it sends: the transport does not send the request again by itself.
func PostOnce(ctx context.Context, client *http.Client, url string, body []byte, header http.Header) (status int, answer []byte, err error) {
	return post(ctx, client, url, body, header, true)
}

func post(ctx context.Context, client *http.Client, url string, body []byte, header http.Header, once bool) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("delivering to %s: %w", url, err)
	}
	req.Header = header
	if once {
		req.GetBody = nil
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
