package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/oncegate/oncegate/internal/control"
)

// answer is what the API says.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) code() control.Code {
	var document struct{ Code control.Code }
	_ = json.Unmarshal(a.body, &document)
	return document.Code
}

// into reads the answer of a request that must succeed.
func (a *answer) into(t *testing.T, value any) {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if err := json.Unmarshal(a.body, value); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
}

// post makes a request with a token such as operate@acme, and headers in pairs.
func (h *house) post(ctx context.Context, token, path string, body any, headers ...string) (*answer, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.server.URL+"/api/v1"+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := h.server.Client().Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	return &answer{response.StatusCode, response.Header, text}, err
}

func (h *house) do(t *testing.T, token, path string, body any, headers ...string) *answer {
	t.Helper()
	a, err := h.post(t.Context(), token, path, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

type object = map[string]any

// expect fails unless the answer is a problem with the code.
func expect(t *testing.T, what string, a *answer, code control.Code) {
	t.Helper()
	if a.code() != code || a.status != code.Meaning().Status {
		t.Errorf("%s: %d %s, want %s", what, a.status, a.body, code)
	}
}
