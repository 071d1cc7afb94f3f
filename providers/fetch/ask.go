package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/oncegate/oncegate/providers/scheme"
)

const (
	// maxQuestions is how many questions may run at once. Anyone with one genuine delivery can
	// cause questions, so Ask fails at once instead of queueing when the limit is reached.
	maxQuestions = 32

	// maxAnswer is the largest answer, in bytes.
	maxAnswer = 64 << 10
)

var (
	errForbiddenQuestion = errors.New("the address is not one that may be asked")
	errTooManyQuestions  = errors.New("too many questions to providers are under way")
	errLongAnswer        = errors.New("the provider's answer is larger than 64 kB")
)

// Ask implements [scheme.Asker]. Config.AskTimeout covers the question, its token and a second try
// with a new token. Ask follows no redirect.
func (f *Fetcher) Ask(q *scheme.Question) ([]byte, error) {
	if !scheme.Allowed(q.URL, q.Hosts) || !scheme.Allowed(q.Grant.URL, q.Hosts) {
		return nil, errForbiddenQuestion
	}
	select {
	case f.questions <- struct{}{}:
		defer func() { <-f.questions }()
	default:
		return nil, errTooManyQuestions
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.cfg.AskTimeout)
	defer cancel()
	token, err := f.token(ctx, q.Grant, "")
	if err != nil {
		return nil, err
	}
	status, answer, err := f.put(ctx, q, token)
	if err == nil && status == http.StatusUnauthorized {
		// The provider revoked the token before it expired.
		if token, err = f.token(ctx, q.Grant, token); err != nil {
			return nil, err
		}
		status, answer, err = f.put(ctx, q, token)
	}
	if err != nil {
		return nil, fmt.Errorf("asking the provider: %w", err)
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("asking the provider: it answered %s", statusText(status))
	}
	return answer, nil
}

func (f *Fetcher) put(ctx context.Context, q *scheme.Question, token string) (status int, answer []byte, err error) {
	return f.post(ctx, q.URL, q.Body, func(req *http.Request) {
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
	})
}

// post sends a request and returns the status and the body of any answer.
func (f *Fetcher) post(ctx context.Context, address string, body []byte, dress func(req *http.Request)) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return 0, nil, errForbiddenQuestion
	}
	req.Header.Set("User-Agent", "oncegate")
	req.Header.Set("Accept", "application/json")
	dress(req)
	got, err := f.do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, got.Body.Close()) }()
	answer, err = io.ReadAll(io.LimitReader(got.Body, maxAnswer+1))
	if err == nil && len(answer) > maxAnswer {
		err = errLongAnswer
	}
	return got.StatusCode, answer, err
}

func statusText(status int) string { return fmt.Sprintf("%d %s", status, http.StatusText(status)) }
