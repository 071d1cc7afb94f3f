package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/docs/reference"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/visible"
)

// Config configures a [New] handler. All fields but Timeout are required.
type Config struct {
	Service *control.Service

	// Authenticate identifies the caller. If its error is not a [control.Problem], the answer is
	// [control.CodeUnauthorized].
	Authenticate func(*http.Request) (control.Access, error)

	Logger *slog.Logger

	// Timeout bounds one request. It defaults to 25 s, less than the server's WriteTimeout.
	Timeout time.Duration
}

// databaseHeader names the database that carries the request out, of a server with several.
const databaseHeader = "Oncegate-Database"

// maxRequest is the largest body of a request, in bytes. Lists of ids are the largest requests.
const maxRequest = 4 << 20

// API serves the operations.
type API struct {
	cfg Config
	mux *http.ServeMux
}

// New makes the handler of everything below [Prefix].
func New(cfg Config) (*API, error) {
	if cfg.Service == nil || cfg.Authenticate == nil || cfg.Logger == nil {
		return nil, errors.New("api: Service, Authenticate and Logger are required")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 25 * time.Second
	}
	a := &API{cfg: cfg, mux: http.NewServeMux()}
	paths := map[string]map[string]http.Handler{}
	for _, operation := range control.Operations() {
		d := operation.Describe()
		if paths[d.Path] == nil {
			paths[d.Path] = map[string]http.Handler{}
		}
		paths[d.Path][d.Method] = a.serve(operation)
	}
	for path, methods := range paths {
		a.mux.Handle(Prefix+path, a.dispatch(methods))
	}
	a.mux.HandleFunc("GET "+Prefix+"/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(reference.OpenAPI()) // the client is gone if this fails
	})
	a.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		a.refuse(w, r, &control.Problem{Code: control.CodeNotFound, Detail: "the API has no such path"})
	})
	return a, nil
}

// dispatch serves a path by its methods. The mux does not do that, because it would pass a method that a path lacks to
// a more general path.
func (a *API) dispatch(methods map[string]http.Handler) http.Handler {
	if read := methods[http.MethodGet]; read != nil {
		methods[http.MethodHead] = read
	}
	allowed := strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if handler := methods[r.Method]; handler != nil {
			handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Allow", allowed)
		a.refuse(w, r, &control.Problem{Code: control.CodeMethod, Detail: "this path takes " + allowed})
	})
}

// requestID is the key of the id of a request in its context.
type requestID struct{}

// ServeHTTP answers a request. No cache may store the answer.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := rand.Text()
	header := w.Header()
	header.Set("X-Request-Id", id)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), requestID{}, id), a.cfg.Timeout)
	defer cancel()
	a.mux.ServeHTTP(w, r.WithContext(ctx))
}

func (a *API) serve(operation control.Definition) http.Handler {
	d := operation.Describe()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		access, err := a.cfg.Authenticate(r)
		if err != nil {
			if _, ok := errors.AsType[*control.Problem](err); !ok {
				err = &control.Problem{Code: control.CodeUnauthorized}
			}
			a.refuse(w, r, err)
			return
		}
		access.Database = r.Header.Get(databaseHeader)
		key, err := readKey(r)
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		ctx, cancel := a.detached(r.Context(), key)
		defer cancel()
		if d.ReadsLists() {
			writeFreshness(w.Header(), a.cfg.Service.Freshness())
		}
		var begun *control.RequestInProgress
		answer, err := operation.Run(ctx, a.cfg.Service, access, func(request any) error {
			err := decode(w, r, d, reflect.ValueOf(request).Elem())
			if err == nil {
				err = readIfMatch(r, request)
			}
			if err == nil {
				begun, err = a.begin(ctx, r, key, access, d, request)
			}
			return err
		})
		if before, ok := errors.AsType[*control.Repeated](err); ok {
			w.Header().Set("Idempotent-Replayed", "true")
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(before.Answer) // the client is gone if this fails
			return
		}
		var text []byte
		if _, isContent := answer.(control.Content); err == nil && !isContent {
			if text, err = json.Marshal(answer); err == nil {
				text = append(visible.JSON(text), '\n')
			}
		}
		a.end(ctx, begun, text, err)
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		if content, ok := answer.(control.Content); ok {
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": content.Name}))
			_, _ = w.Write(content.Bytes) // the client is gone if this fails
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if d.Method == http.MethodGet {
			tag := etag(answer, text)
			w.Header().Set("ETag", tag)
			if known(r, tag) {
				w.WriteHeader(http.StatusNotModified)
				return
			}
		}
		_, _ = w.Write(text) // the client is gone if this fails
	})
}

// decode reads a request from its path, query and body.
func decode(w http.ResponseWriter, r *http.Request, d control.Description, request reflect.Value) error {
	body := hasBody(d.Method)
	if body {
		content, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return &control.Problem{Code: control.CodeTooLarge, Detail: "the body is larger than 4 MiB"}
		}
		if err != nil {
			return &control.Problem{Code: control.CodeInvalid, Detail: "the body is incomplete"}
		}
		if len(bytes.TrimSpace(content)) > 0 {
			decoder := json.NewDecoder(bytes.NewReader(content))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(request.Addr().Interface()); err != nil {
				return &control.Problem{Code: control.CodeInvalid, Detail: "the body: " + strings.TrimPrefix(err.Error(), "json: ")}
			}
			if decoder.More() {
				return &control.Problem{Code: control.CodeInvalid, Detail: "the body contains more than one JSON value"}
			}
		}
	}
	if err := decodeAddress(request, d.Path, r.PathValue, r.URL.Query(), body); err != nil {
		return &control.Problem{Code: control.CodeInvalid, Detail: err.Error()}
	}
	return nil
}

// ProblemDocument is the answer to a failed request (RFC 9457).
type ProblemDocument struct {
	// Type identifies the kind of problem by the address of its code in the reference.
	Type string `json:"type"`

	// Title describes the error in a few words. It is the same for every answer with the code.
	Title string `json:"title"`

	// Status is the HTTP status of the answer.
	Status int `json:"status"`

	// Detail is one line that says what is wrong with this request. It contains keys and ids, never content.
	Detail string `json:"detail,omitempty"`

	// Code tells a program why the request failed.
	Code control.Code `json:"code"`

	// Retriable says that the same request may succeed if it is repeated, and does no harm.
	Retriable bool `json:"retriable"`

	// Next is what the caller should do next.
	Next string `json:"next"`

	// RequestID is the id of the request in the log of the server.
	RequestID string `json:"request_id"`
}

// problemType is the prefix of the types of problem documents. It leads to the reference of each code. Never change it.
const problemType = "https://github.com/oncegate/oncegate/blob/main/docs/reference/errors.md#api-"

// refuse answers with the problem document of err.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := control.ProblemOf(err)
	meaning := p.Code.Meaning()
	id, _ := r.Context().Value(requestID{}).(string)
	if p.Code == control.CodeInternal {
		a.cfg.Logger.LogAttrs(r.Context(), slog.LevelError, "a request of the API failed", slog.String("request_id", id),
			slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Any("error", err))
	}
	if meaning.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="oncegate"`)
	}
	text, err := json.Marshal(ProblemDocument{
		Type: problemType + string(p.Code), Title: meaning.Title, Status: meaning.Status, Detail: p.Detail, Code: p.Code,
		Retriable: meaning.Retriable, Next: meaning.Next, RequestID: id,
	})
	if err != nil { // texts always marshal
		text = []byte(`{"code":"internal"}`)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(meaning.Status)
	_, _ = w.Write(append(visible.JSON(text), '\n')) // the client is gone if this fails
}
