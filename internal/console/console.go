package console

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/control"
)

// Config configures a [Console]. Caller, Authenticate and Logger are required.
type Config struct {
	// Caller gives what carries out operations for somebody.
	Caller func(control.Access) control.Caller

	// Authenticate says who asks. Its error is a [control.Problem]; one with [control.CodeUnauthorized] leads to
	// Login.
	Authenticate func(*http.Request) (control.Access, error)

	// Login is the address at which the browser logs in and comes back to the page of the request. It defaults to /login.
	Login func(*http.Request) string

	// Protect refuses requests that another site has a browser make. It defaults to [http.CrossOriginProtection].
	Protect func(http.Handler) http.Handler

	// Logger is told of pages that fail for a reason that their reader cannot mend.
	Logger *slog.Logger

	// Done ends what stays open: live lists. It is closed when the process stops; nil never is.
	Done <-chan struct{}

	// Timeout bounds what one page asks for. It defaults to 20 s, less than the server's WriteTimeout.
	Timeout time.Duration

	// Every is how often a live list looks for what is new. It defaults to 2 s.
	Every time.Duration

	// Streams is how many live lists are open at once, of all browsers. It defaults to 32.
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
	c.mux.Handle("/", c.page(func(*request) (*page, error) {
		return nil, &control.Problem{Code: control.CodeNotFound, Detail: "the console has no such page"}
	}))
	return c, nil
}

// ServeHTTP answers a request. No cache keeps a page, and nothing frames it.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protectPage(w.Header())
	c.mux.ServeHTTP(w, r)
}

// protectPage sets the headers that every answer of the console has.
func protectPage(h http.Header) {
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY") // for browsers that do not know frame-ancestors
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// maxForm bounds the body of a form, in bytes.
const maxForm = 1 << 20

// request is one request for a page, of somebody who is logged in.
type request struct {
	*http.Request
	console *Console
	access  control.Access
	caller  control.Caller
	now     time.Time
	w       http.ResponseWriter
}

// call carries out an operation for whoever asks for a page.
func call[Request, Response any](r *request, operation *control.Operation[Request, Response], ask Request) (Response, error) {
	return control.Call(r.Context(), r.caller, operation, ask)
}

// may reports whether whoever asks has a scope, so that a page shows no button that would be refused. The operation
// checks it again.
func (r *request) may(scope control.Scope) bool { return r.access.Scopes.Allow(scope) }

// query gives a parameter of the address.
func (r *request) query(name string) string { return strings.TrimSpace(r.URL.Query().Get(name)) }

// errAnswered is returned by what has written the answer itself.
var errAnswered = errors.New("answered")

// page serves what draw makes.
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
			c.render(r, http.StatusOK, p)
		}
	})
}

// refuse answers somebody who is not logged in, or must wait.
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

// nextStep says what a person at a page does next, where what the table of codes says is meant for a program.
func nextStep(code control.Code, meaning control.CodeMeaning) string {
	if code == control.CodeForbidden {
		return "Ask whoever runs Oncegate for an access with that scope."
	}
	if code == control.CodeInternal {
		return "The log of the server says why."
	}
	if code == control.CodeMethod || code == control.CodeUnauthorized {
		return ""
	}
	return meaning.Next
}

// seeOther sends the browser on after something was done, so that a reload does not do it again. done is one of the words
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
