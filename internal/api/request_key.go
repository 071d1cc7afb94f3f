package api

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/oncegate/oncegate/internal/control"
)

// keyHeader identifies a request, so that it happens once even if it is sent several times
// (draft-ietf-httpapi-idempotency-key-header).
const keyHeader = "Idempotency-Key"

// readKey returns the key of a request, or an empty text if it has none. A key means the same with and without
// quotes.
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

// begin begins a request that has a key, so that it happens once. It returns nil for a request without a key and for
// one that only reads.
func (a *API) begin(ctx context.Context, r *http.Request, key string, access control.Access, d control.Description, request any) (*control.RequestInProgress, error) {
	if key == "" || d.Reads {
		return nil, nil //nolint:nilnil // what has no key or changes nothing cannot have happened before
	}
	return a.cfg.Service.BeginRequest(ctx, control.KeyedRequest{
		Access: access, Key: key, Operation: d, Request: request, Match: strings.Join(r.Header.Values("If-Match"), ","),
	})
}

// end records how a request with a key ended. If it cannot record that, the request does not fail. If the client then
// repeats the request, it gets "outcome unknown".
func (a *API) end(ctx context.Context, begun *control.RequestInProgress, answer []byte, failed error) {
	if begun == nil {
		return
	}
	if err := begun.End(ctx, answer, failed); err != nil {
		a.cfg.Logger.LogAttrs(ctx, slog.LevelError, "the end of a request of the API was not recorded", slog.Any("error", err))
	}
}

// detached returns a context that does not end when the client disconnects, if the request has a key. The server
// finishes such a request and keeps its answer.
func (a *API) detached(ctx context.Context, key string) (context.Context, context.CancelFunc) {
	if key == "" {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), a.cfg.Timeout)
}
