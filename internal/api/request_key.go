package api

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/oncegate/oncegate/internal/control"
)

// keyHeader names the request, so that it happens once however often it is sent
// (draft-ietf-httpapi-idempotency-key-header).
const keyHeader = "Idempotency-Key"

// readKey gives the key of a request; empty if it has none. One in quotes and the bare one are one key.
func readKey(r *http.Request) (string, error) {
	values := r.Header.Values(keyHeader)
	if len(values) == 0 || r.Method != http.MethodPost {
		return "", nil
	}
	key := strings.TrimSpace(values[0])
	if len(key) >= 2 && key[0] == '"' && key[len(key)-1] == '"' {
		key = key[1 : len(key)-1]
	}
	if len(values) > 1 || key == "" || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
		return "", &control.Problem{Code: control.CodeInvalid, Detail: "Idempotency-Key must be one text of printable ASCII, such as a random UUID"}
	}
	return key, nil
}

// begin begins a request that has a key, so that it happens once; nil for one without.
func (a *API) begin(ctx context.Context, r *http.Request, key string, access control.Access, d control.Description, request any) (*control.RequestInProgress, error) {
	if key == "" || d.Reads {
		return nil, nil //nolint:nilnil // what has no key or changes nothing cannot have happened before
	}
	return a.cfg.Service.BeginRequest(ctx, control.KeyedRequest{
		Access: access, Key: key, Operation: d, Request: request, Match: strings.Join(r.Header.Values("If-Match"), ","),
	})
}

// end records how a request with a key ended. That it cannot is no reason to say that the request failed: whoever makes it again
// is told that nobody knows.
func (a *API) end(ctx context.Context, begun *control.RequestInProgress, answer []byte, failed error) {
	if begun == nil {
		return
	}
	if err := begun.End(ctx, answer, failed); err != nil {
		a.cfg.Logger.LogAttrs(ctx, slog.LevelError, "the end of a request of the API was not recorded", slog.Any("error", err))
	}
}

// detached goes on after its client has gone: what has been begun under a key is finished, and its answer kept.
func (a *API) detached(ctx context.Context, key string) (context.Context, context.CancelFunc) {
	if key == "" {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), a.cfg.Timeout)
}
