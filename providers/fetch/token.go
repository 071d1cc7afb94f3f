package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oncegate/oncegate/providers/scheme"
)

const (
	// tokenPause is the shortest time between a failed attempt, or the refusal of a token, and the
	// next attempt.
	tokenPause = 10 * time.Second

	// tokenMargin is how long before its expiry a token is replaced. For a short-lived token, it is
	// a tenth of its life instead.
	tokenMargin = time.Minute

	// maxTokenLife is the longest time that a token is used.
	maxTokenLife = 24 * time.Hour

	maxToken = 8 << 10 // in bytes
)

var (
	errNoToken      = errors.New("getting an access token: the provider answered something that is no token")
	errTokenRefused = errors.New("asking the provider: it does not accept the access token that it gave")
)

// token is an access token and the state of the attempts to get it.
type token struct {
	text    string
	until   time.Time // the token is not used from this time on
	tried   time.Time // the time of the last attempt
	err     error     // the error of the last attempt
	running chan struct{}
}

// token returns an access token other than the refused one, which may be empty. Concurrent callers
// share one attempt and its result. The number of tokens is limited by the configured sources, so
// none is evicted.
func (f *Fetcher) token(ctx context.Context, grant scheme.Grant, refused string) (string, error) {
	key := sha256.Sum256([]byte(grant.URL + "\n" + grant.ID + "\n" + grant.Secret))
	f.mu.Lock()
	t := f.tokens[key]
	if t == nil {
		t = &token{}
		f.tokens[key] = t
	}
	if t.running != nil {
		wait := t.running
		f.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return "", fmt.Errorf("getting an access token: %w", ctx.Err())
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		return t.text, t.err
	}
	now := f.cfg.Now()
	early := now.Sub(t.tried) < tokenPause
	var err error
	switch {
	case t.text != "" && t.text != refused && now.Before(t.until):
		text := t.text
		f.mu.Unlock()
		return text, nil
	case early && t.err != nil:
		err = t.err
	case early && refused != "" && t.text == refused:
		err = errTokenRefused
	}
	if err != nil {
		f.mu.Unlock()
		return "", err
	}
	t.running, t.tried = make(chan struct{}), now
	f.mu.Unlock()

	text, life, err := f.grant(ctx, grant)
	f.mu.Lock()
	defer f.mu.Unlock()
	t.text, t.err = text, err
	t.until = now.Add(life - min(tokenMargin, life/10)) // counted from the start of the attempt, so never too late
	close(t.running)
	t.running = nil
	return text, err
}

// grant requests a token. Its errors never contain the answer's content.
func (f *Fetcher) grant(ctx context.Context, grant scheme.Grant) (text string, life time.Duration, err error) {
	status, answer, err := f.post(ctx, grant.URL, []byte("grant_type=client_credentials"), func(req *http.Request) {
		req.SetBasicAuth(grant.ID, grant.Secret)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	})
	switch {
	case err != nil:
		return "", 0, fmt.Errorf("getting an access token: %w", err)
	case status == http.StatusUnauthorized:
		return "", 0, fmt.Errorf("getting an access token: the provider answered %s; check the client id and secret", statusText(status))
	case status != http.StatusOK:
		return "", 0, fmt.Errorf("getting an access token: the provider answered %s", statusText(status))
	}
	var given struct {
		Token   string `json:"access_token"`
		Type    string `json:"token_type"`
		Expires int64  `json:"expires_in"` // seconds
	}
	if json.Unmarshal(answer, &given) != nil || !usable(given.Token) || !strings.EqualFold(given.Type, "bearer") || given.Expires <= 0 {
		return "", 0, errNoToken
	}
	return given.Token, time.Duration(min(given.Expires, int64(maxTokenLife/time.Second))) * time.Second, nil
}

// usable reports whether a token can be sent in a header.
func usable(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return text != "" && len(text) <= maxToken
}
