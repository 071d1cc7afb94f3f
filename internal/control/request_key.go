package control

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
)

// KeyedRequest is a request that must happen only once, even if it is repeated under its key.
type KeyedRequest struct {
	// Access is the caller. Each caller has separate keys.
	Access Access

	// Key is the Idempotency-Key, of at most 255 bytes.
	Key string

	// Operation is the requested operation, and Request its parameters.
	Operation Description
	Request   any

	// Match is the value of the If-Match header.
	Match string
}

// Repeated is returned for a request that happened before. It has the answer that was given then.
type Repeated struct {
	Answer []byte
}

// Error returns that the request happened before.
func (r *Repeated) Error() string { return "the request happened before" }

const (
	// requestKeyLife is how long a key is remembered.
	requestKeyLife = 24 * time.Hour

	// requestLease is how long a request may take. It is longer than any answer takes.
	requestLease = 2 * time.Minute

	maxRequestKey = 255
)

// RequestInProgress is a keyed request that is under way.
type RequestInProgress struct {
	service *Service
	hash    []byte
	lease   inbox.ID
	secret  bool
}

// The insert decides who carries the request out: of requests that arrive at the same instant, one inserts the row. An
// expired key is free again even if prune has not removed it yet.
const beginRequest = `
INSERT INTO api_request AS r (key_hash, request_hash, lease, actor, operation, begun_at, lease_until, expires_at)
VALUES ($1, $2, $3, $4, $5, now(), now() + $6::bigint * interval '1 microsecond', now() + $7::bigint * interval '1 microsecond')
ON CONFLICT ON CONSTRAINT api_request_pkey DO UPDATE
SET request_hash = excluded.request_hash, lease = excluded.lease, actor = excluded.actor, operation = excluded.operation,
    begun_at = excluded.begun_at, lease_until = excluded.lease_until, ended_at = NULL, answer = NULL, expires_at = excluded.expires_at
WHERE r.expires_at <= now()
RETURNING true`

const readRequest = `
SELECT request_hash, ended_at IS NOT NULL, ended_at IS NULL AND lease_until > now(), answer, begun_at
FROM api_request
WHERE key_hash = $1`

// BeginRequest begins a keyed request if it is the first under its key. A caller that gets no error carries the request
// out and calls [RequestInProgress.End]. BeginRequest returns [Repeated] for a request that has ended. It returns a
// [Problem] if the request is under way, if the key was used for another request, or if the outcome of the request is
// unknown.
func (s *Service) BeginRequest(ctx context.Context, k KeyedRequest) (*RequestInProgress, error) {
	if s.front != nil {
		return s.front.begin(ctx, k)
	}
	if k.Key == "" || len(k.Key) > maxRequestKey {
		return nil, invalid("Idempotency-Key: must have from 1 to %d bytes", maxRequestKey)
	}
	keyHash, requestHash, err := k.hashes()
	if err != nil {
		return nil, err
	}
	lease := inbox.NewID(s.cfg.Now())
	_, _ = rand.Read(lease[8:]) // never fails
	// A row that is gone when it is read was released meanwhile, so its request did nothing.
	for range 3 {
		var begun bool
		err := s.cfg.Pool.QueryRow(ctx, beginRequest, keyHash, requestHash, lease, k.Access.Actor, k.Operation.ID, requestLease.Microseconds(), requestKeyLife.Microseconds()).Scan(&begun)
		if err == nil {
			return &RequestInProgress{service: s, hash: keyHash, lease: lease, secret: k.Operation.Secret}, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return nil, fmt.Errorf("beginning a request: %w", err)
		}
		var before, answer []byte
		var ended, underWay bool
		var at time.Time
		err = s.cfg.Pool.QueryRow(ctx, readRequest, keyHash).Scan(&before, &ended, &underWay, &answer, &at)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			continue
		case err != nil:
			return nil, fmt.Errorf("reading a request: %w", err)
		case string(before) != string(requestHash):
			return nil, &Problem{Code: CodeKeyReused, Detail: "another request was made under this Idempotency-Key; nothing was changed"}
		case underWay:
			return nil, &Problem{Code: CodeKeyInFlight, Detail: "the request under this Idempotency-Key is under way"}
		case !ended:
			return nil, &Problem{Code: CodeOutcomeUnknown, Detail: fmt.Sprintf(
				"the request was begun at %s and did not say how it ended: look at what it was about, and at the audit since then, before you make it again under another key",
				at.UTC().Format(time.RFC3339))}
		case answer == nil:
			return nil, &Problem{Code: CodeAnswerNotKept}
		}
		return nil, &Repeated{Answer: answer}
	}
	return nil, &Problem{Code: CodeKeyInFlight, Detail: "the request under this Idempotency-Key is under way"}
}

// hashes returns the stored hashes of a key and its request. The hash of the request includes the key, so that the content
// of a request cannot be guessed from its hash.
func (k *KeyedRequest) hashes() (key, request []byte, err error) {
	content, err := json.Marshal(k.Request)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the request: %w", err)
	}
	hash := func(parts ...any) []byte {
		sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
		return sum[:]
	}
	return hash("key", k.Access.Actor, k.Access.Tenant, k.Access.Scopes.String(), k.Key), hash("request", k.Key, k.Operation.ID, k.Match, string(content)), nil
}

// Only the process that carries the request out may end it. After its lease another process may have taken the key.
const (
	endRequest = `UPDATE api_request SET ended_at = now(), answer = $3 WHERE key_hash = $1 AND lease = $2`

	releaseRequest = `DELETE FROM api_request WHERE key_hash = $1 AND lease = $2`

	loseRequest = `UPDATE api_request SET lease_until = now() WHERE key_hash = $1 AND lease = $2 AND ended_at IS NULL`
)

// End records how the request ended: with an answer or with an error. A refused request has changed nothing, or does
// the rest when it is repeated, so it may be repeated under its key. After any other error the outcome is unknown, and
// the next request under the key gets that answer.
func (r *RequestInProgress) End(ctx context.Context, answer []byte, failed error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	sql, args := endRequest, []any{r.hash, r.lease, answer}
	switch {
	case failed == nil && r.secret:
		args[2] = nil
	case failed == nil:
	case refused(failed):
		sql, args = releaseRequest, args[:2]
	default:
		sql, args = loseRequest, args[:2]
	}
	if _, err := r.service.cfg.Pool.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("recording how a request ended: %w", err)
	}
	return nil
}

// refused reports whether an error means that the same request may certainly be made again.
func refused(err error) bool {
	code := ProblemOf(err).Code
	if code == CodeUnavailable {
		_, said := errors.AsType[*Problem](err)
		return said || errors.Is(err, gate.ErrOverloaded)
	}
	return code.Meaning().Status < 500
}
