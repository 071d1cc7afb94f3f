package console

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/session"
)

// Config configures a [Console]. Caller, Authenticate and Logger are required.
type Config struct {
	// Caller returns the caller that carries out operations with an access.
	Caller func(control.Access) control.Caller

	// Authenticate identifies the user. Its error is a [control.Problem]; one with [control.CodeUnauthorized] leads to
	// Login.
	Authenticate func(*http.Request) (control.Access, error)

	// Login returns the address at which the browser logs in and then returns to the requested page. It defaults to
	// /login.
	Login func(*http.Request) string

	// Protect refuses requests that another site makes the browser send. It defaults to [http.CrossOriginProtection].
	Protect func(http.Handler) http.Handler

	// Logger gets the errors of pages that fail for a reason that the user cannot fix.
	Logger *slog.Logger

	// Freshness returns how old the data of the pages is. It is nil if the pages show what the primary has.
	Freshness func() session.Freshness

	// Buffered means that the configuration has a buffer, whose state the start page shows.
	Buffered bool

	// Done ends the live lists when it is closed, which happens when the process stops. nil never ends them.
	Done <-chan struct{}

	// Timeout bounds the operations of one page. It defaults to 20 s, less than the server's WriteTimeout.
	Timeout time.Duration

	// Every is how often a live list looks for new rows. It defaults to 2 s.
	Every time.Duration

	// Streams is how many live lists may be open at once, for all browsers. It defaults to 32.
	Streams int

	// Now defaults to time.Now.
	Now func() time.Time
}

// Console serves the pages.
type Console struct {
	cfg   Config
	mux   *http.ServeMux
	lives *lives
}

// New checks the configuration and makes a Console.
func New(cfg Config) (*Console, error) {
	if cfg.Caller == nil || cfg.Authenticate == nil || cfg.Logger == nil {
		return nil, errors.New("console: Caller, Authenticate and Logger are required")
	}
	if cfg.Login == nil {
		cfg.Login = func(r *http.Request) string { return "/login?" + url.Values{"return": {r.URL.RequestURI()}}.Encode() }
	}
	if cfg.Protect == nil {
		cfg.Protect = http.NewCrossOriginProtection().Handler
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 20 * time.Second
	}
	if cfg.Every == 0 {
		cfg.Every = 2 * time.Second
	}
	if cfg.Streams == 0 {
		cfg.Streams = 32
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	c := &Console{cfg: cfg, mux: http.NewServeMux(), lives: newLives(cfg.Streams)}
	for _, r := range routes() {
		c.mux.Handle(r.pattern, c.cfg.Protect(c.page(r.make)))
	}
	c.mux.HandleFunc("GET /live", c.live)
	c.mux.Handle("POST /theme", c.cfg.Protect(http.HandlerFunc(c.setTheme)))
	c.mux.HandleFunc("GET /assets/{name}", serveAsset)
	c.mux.HandleFunc("GET /docs", c.serveManual)
	c.mux.HandleFunc("GET /docs/{page...}", c.serveManual)
	c.mux.Handle("/", c.page(func(*request) (*page, error) {
		return nil, &control.Problem{Code: control.CodeNotFound, Detail: "the console has no such page"}
	}))
	return c, nil
}

// ServeHTTP answers a request. No cache may store a page, and no site may frame it.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protectPage(w.Header())
	c.mux.ServeHTTP(w, r)
}

// protectPage sets the headers that every answer of the console has.
func protectPage(h http.Header) {
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY") // for browsers without frame-ancestors
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// maxForm bounds the body of a form, in bytes.
const maxForm = 1 << 20

// request is one request for a page, by a user who is logged in.
type request struct {
	*http.Request
	console *Console
	access  control.Access
	caller  control.Caller
	now     time.Time
	fresh   session.Freshness // of the data that the page shows
	w       http.ResponseWriter

	// known has the names that filters offer. It is nil until a page needs them.
	known *control.Names

	// unknown says which name of the filter does not exist, and which do. It is empty if all exist.
	unknown string
}

// call carries out an operation with the access of the page's user. If the filter of a page names something that does not
// exist, the page says so above its empty list, where the user can correct the name.
func call[Request, Response any](r *request, operation *control.Operation[Request, Response], ask Request) (Response, error) {
	response, err := control.Call(r.Context(), r.caller, operation, ask)
	if problem, ok := errors.AsType[*control.Problem](err); ok && problem.Code == control.CodeUnknownName && r.Method == http.MethodGet {
		r.unknown = problem.Detail
		if kind := reflect.TypeFor[Response](); kind.Kind() == reflect.Pointer {
			response = reflect.New(kind.Elem()).Interface().(Response) //nolint:forcetypeassert // it is a new one of that type
		}
		return response, nil
	}
	return response, err
}

// may reports whether the user has a scope, so that a page shows no button that would be refused. The operation checks
// the scope again.
func (r *request) may(scope control.Scope) bool { return r.access.Scopes.Allow(scope) }

// query returns a parameter of the address.
func (r *request) query(name string) string { return strings.TrimSpace(r.URL.Query().Get(name)) }

// errAnswered means that the answer is already written.
var errAnswered = errors.New("answered")

// page serves the page that draw makes.
func (c *Console) page(draw func(*request) (*page, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		access, err := c.cfg.Authenticate(hr)
		if err != nil {
			c.refuse(w, hr, err)
			return
		}
		ctx, cancel := context.WithTimeout(hr.Context(), c.cfg.Timeout)
		defer cancel()
		hr.Body = http.MaxBytesReader(w, hr.Body, maxForm)
		r := &request{Request: hr.WithContext(ctx), console: c, access: access, caller: c.cfg.Caller(access), now: c.cfg.Now(), w: w}
		r.fresh = c.freshness() // before the data is read, so that the data is at least as new
		if hr.Method == http.MethodPost {
			if err := r.ParseForm(); err != nil {
				c.fail(r, &control.Problem{Code: control.CodeInvalid, Detail: "the form cannot be read"})
				return
			}
		}
		p, err := draw(r)
		switch {
		case errors.Is(err, errAnswered):
		case err != nil:
			c.fail(r, err)
		default:
			if r.unknown != "" {
				p.Blocks = append([]block{{Notice: &notice{Kind: "warn", Text: capital(r.unknown) + "."}}}, p.Blocks...)
			}
			c.render(r, http.StatusOK, p)
		}
	})
}

// refuse answers a user who is not logged in or must wait.
func (c *Console) refuse(w http.ResponseWriter, hr *http.Request, err error) {
	problem := control.ProblemOf(err)
	if problem.Code == control.CodeUnauthorized {
		http.Redirect(w, hr, c.cfg.Login(hr), http.StatusSeeOther)
		return
	}
	c.fail(&request{Request: hr, console: c, now: c.cfg.Now(), w: w}, err)
}

// fail shows why a page cannot be shown, or why nothing was done.
func (c *Console) fail(r *request, err error) {
	problem := control.ProblemOf(err)
	meaning := problem.Code.Meaning()
	if problem.Code == control.CodeInternal {
		c.cfg.Logger.LogAttrs(r.Context(), slog.LevelError, "a page of the console failed", slog.String("method", r.Method),
			slog.String("path", r.URL.Path), slog.Any("error", err))
	}
	p := &page{Title: capital(meaning.Title), Blocks: []block{{Notice: &notice{Kind: "bad", Text: or(problem.Detail, meaning.Title), Detail: nextStep(problem.Code, meaning)}}}}
	if r.Method == http.MethodPost {
		p.Blocks = append(p.Blocks, block{Text: "Nothing was changed. Go back with your browser to correct what you entered."})
	}
	c.render(r, meaning.Status, p)
}

// nextStep returns what the user of a page should do next. The table of codes is partly meant for programs.
func nextStep(code control.Code, meaning control.CodeMeaning) string {
	if code == control.CodeForbidden {
		return "Ask the operator of Oncegate for a token or login with that scope."
	}
	if code == control.CodeInternal {
		return "The log of the server says why."
	}
	if code == control.CodeMethod || code == control.CodeUnauthorized {
		return ""
	}
	return meaning.Next
}

// seeOther redirects the browser after something was done, so that a reload does not repeat it. done is one of the keys
// of doneTexts.
func (r *request) seeOther(path, done string) (*page, error) {
	if done != "" {
		separator := "?"
		if strings.Contains(path, "?") {
			separator = "&"
		}
		path += separator + "done=" + done
	}
	http.Redirect(r.w, r.Request, path, http.StatusSeeOther)
	return nil, errAnswered
}
