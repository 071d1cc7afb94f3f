package console

import (
	"bytes"
	"embed"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/visible"
)

//go:embed templates
var templateFiles embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	// v makes text that a sender or a target chose safe to show. Every text of a page passes through it.
	"v":          visible.Text,
	"lines":      lines,
	"asset":      func(name string) *asset { return assets[name] },
	"utc":        func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05.000 UTC") },
	"when":       func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") },
	"machine":    func(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) },
	"ago":        ago,
	"tone":       tone,
	"words":      func(s string) string { return strings.ReplaceAll(s, "_", " ") },
	"shape":      shape,
	"filled":     filled,
	"hover":      hover,
	"numbers":    numbers,
	"label":      func(heads []string, i int) string { return heads[i] },
	"with_now":   func(b block, now time.Time) timedBlock { return timedBlock{b, now} },
	"form_below": func(f form, below bool) placedForm { return placedForm{f, below} },
	"cell_at":    func(c cell, now time.Time) timedCell { return timedCell{c, now} },
}).ParseFS(templateFiles, "templates/*.gohtml"))

// frame is what the layout shows around a page.
type frame struct {
	*page
	Now    time.Time
	Theme  string
	Menu   []menuGroup
	Actor  string
	Tenant string
	Done   string
	Query  string
	Scopes string
	Data   *dataAge
}

// render writes a page. It renders the whole page first, so that an error does not leave half of a page.
func (c *Console) render(r *request, status int, p *page) {
	f := frame{
		page: p, Now: r.now, Theme: theme(r.Request), Menu: menu(r.URL.Path), Actor: r.access.Actor, Tenant: r.access.Tenant,
		Done: doneTexts[r.query("done")], Query: r.query("q"), Scopes: r.access.Scopes.String(),
		Data: dataAgeOf(r.fresh, r.now),
	}
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, "layout", f); err != nil {
		c.cfg.Logger.LogAttrs(r.Context(), slog.LevelError, "a page of the console cannot be drawn", slog.String("path", r.URL.Path), slog.Any("error", err))
		http.Error(r.w, "The page cannot be drawn; the log of the server says why.", http.StatusInternalServerError)
		return
	}
	r.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	r.w.Header().Set("Content-Length", strconv.Itoa(out.Len()))
	r.w.WriteHeader(status)
	_, _ = r.w.Write(out.Bytes()) // the browser is gone if this fails
}

// doneTexts are the confirmations that a page may show, by the word in its address. No other part of an address is
// shown as a message of the console.
var doneTexts = map[string]string{
	"planned":      "The replay is planned. Nothing is sent before you run it.",
	"running":      "The replay runs.",
	"cancelled":    "The replay is cancelled. What it had begun is not taken back.",
	"discarded":    "The dead letter is discarded.",
	"resolved":     "The outcome is recorded.",
	"skipped":      "The stream continues.",
	"unblocked":    "The stream continues after the effect that blocked it.",
	"decided":      "The decision is recorded.",
	"acknowledged": "The causes are acknowledged. Another source, cause or peer still waits for you.",
	"withdrawn":    "The causes are no longer acknowledged. Their refusals wait for you again.",
	"dismissed":    "The conflict is dismissed. It can still be admitted.",
	"admitted":     "The payload is admitted as a separate event.",
	"reverified":   "The refused delivery was accepted and is an event now.",
	"erased":       "The content of the event is erased.",
	"suppressed":   "The address is suppressed: no message is sent to it.",
	"removed":      "The address may be written to again.",
	"revoked":      "It is revoked, from now on.",
	"outbox":       "The emitted event is discarded.",
	"saved":        "It is saved.",
	"paused":       "It is paused. All processes know of it within two seconds.",
	"enabled":      "It is enabled. The servers take that over within seconds.",
	"disabled":     "It is disabled. The servers take that over within seconds.",
	"resumed":      "It is resumed. All processes know of it within two seconds.",
}

// themeCookie stores the theme that the user chose. It is not secret, and the security of the console does not depend
// on it.
const themeCookie = "oncegate-theme"

// theme returns light, dark, or empty for the preference of the system.
func theme(r *http.Request) string {
	cookie, err := r.Cookie(themeCookie)
	if err != nil || cookie.Value != "light" && cookie.Value != "dark" {
		return ""
	}
	return cookie.Value
}

// setTheme stores the theme in the browser and redirects to the page.
func (c *Console) setTheme(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<10)
	cookie := &http.Cookie{Name: themeCookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: r.TLS != nil, MaxAge: 365 * 24 * 3600} //nolint:gosec // it is no secret, and the console may be reached without TLS on this machine
	switch chosen := r.PostFormValue("theme"); chosen {
	case "light", "dark":
		cookie.Value = chosen
	default:
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
	to := r.PostFormValue("return")
	if !isLocal(to) {
		to = "/"
	}
	http.Redirect(w, r, to, http.StatusSeeOther) //nolint:gosec // it is a path of this server, as was checked
}

// isLocal reports whether an address is a path of this server. A browser removes tabs and line breaks from an address and
// reads a backslash as a slash, so an address that contains one of them may lead to another site.
func isLocal(address string) bool {
	at, err := url.Parse(address)
	return err == nil && at.Scheme == "" && at.Host == "" && at.User == nil && strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "//") &&
		!strings.Contains(address, `\`) && visible.Text(address) == address
}

// tone returns the colour of a state: good, bad, warn, busy or plain.
func tone(state string) string {
	switch state {
	case "done", "accepted", "resolved", "live", "active", "admitted", "ok", "replayed", "created", "verified", "matches":
		return "good"
	case "dead", "unusable", "blocked", "refused", "failed", "silent", "conflict", "permanent":
		return "bad"
	case "indeterminate", "retry", "gap", "beyond_retention", "unrouted", "held", "undecided", "expired", "changed", "unknown", "waiting", "paused",
		"other_target", "other_body", "other_key", "no_route", "new_request", "cannot_render", "gone": // steps of a run that differ
		return "warn"
	case "running", "queued", "sending", "planning", "planned", "pending", "ready", "claimed":
		return "busy"
	}
	return "plain"
}

// ago says roughly how long before or after now at is.
func ago(at, now time.Time) string {
	d := now.Sub(at)
	if d < 0 {
		return "in " + roughly(-d)
	}
	if d < time.Second {
		return "just now"
	}
	return roughly(d) + " ago"
}

func roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + " h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + " days"
}

// groupDigits formats a number with commas between its thousands.
func groupDigits(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// byteSize formats a number of bytes for people.
func byteSize(n int64) string {
	switch {
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1<<20:
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', 1, 64) + " KiB"
	}
	return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
}

// capital makes the first letter of a sentence upper-case.
func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// or returns text, or otherwise if text is empty.
func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// count formats a number with its noun.
func count(n int, one, several string) string {
	return groupDigits(int64(n)) + " " + noun(int64(n), one, several)
}

// noun returns the form of a noun that fits a number.
func noun(n int64, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

// timedBlock and timedCell carry the time of the page to the templates that compare times with it.
type timedBlock struct {
	block
	Now time.Time
}

// placedForm is a form, and whether it is below the heading of its block.
type placedForm struct {
	form
	Below bool
}

type timedCell struct {
	cell
	Now time.Time
}
