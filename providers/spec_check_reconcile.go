package providers

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// placeholder is a value that a request of a list inserts.
var placeholder = regexp.MustCompile(`\{\{([^{}]*)\}\}`)

// paramName is the form of the parameters' names.
var paramName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

func reconcileDefaults(r *ReconcileSpec) {
	if !r.Present() {
		return
	}
	setDefault(&r.Method, http.MethodGet)
	setDefault(&r.Event, "$")
	setDefault(&r.Wrap, "{{event}}")
	if r.Redelivers() {
		setDefault(&r.Redeliver.Method, http.MethodPost)
	}
}

// reconcile checks the list of the sender's events.
func (d *specReader) reconcile(s *Spec) {
	r := &s.Reconcile
	if !r.Present() {
		return
	}
	if s.Verify.Family == familyOperation {
		d.at("reconcile", "does not go with family operation: its events have callers and no sender that lists them")
		return
	}
	d.link("reconcile.docs", r.Docs)
	d.reconcileRequest(r)
	d.reconcileAuth(r)
	d.choice("reconcile.order", r.Order, []string{"newest", "oldest", "unknown"}, nil)
	d.reconcileElement(s)
	if strings.Count(r.Wrap, "{{event}}") != 1 {
		d.at("reconcile.wrap", "needs {{event}} once")
	}
	d.reconcilePage(r)
	d.reconcileRate(&r.Rate)
	if r.Redelivers() {
		d.redeliver(r)
		return
	}
	if r.Signed {
		return
	}
	// A digest or a header's value would not be the same in the list and in the delivery, and each event would be admitted twice.
	if s.Identity.Mode != "id" || slices.ContainsFunc(s.Identity.Candidates, func(f Field) bool { return f.JSON == "" }) {
		d.at("reconcile", "the event id is not in the event itself (identity), so a listed event could not be recognised as one that arrived; only redeliver works for such a sender")
	}
}

// reconcileElement checks where an element of the list has the event.
func (d *specReader) reconcileElement(s *Spec) {
	r := &s.Reconcile
	paths := map[string]string{"events": r.Events, "event": r.Event}
	switch {
	case !r.Signed:
		paths["created.json"], paths["id"] = r.Created.JSON, r.ID
		d.choice("reconcile.created.unit", r.Created.Unit, []string{"s", "ms", "rfc3339"}, nil)
	case r.ID != "" || r.Created != ReconcileTime{} || r.Redelivers():
		d.at("reconcile.signed", "goes without id, created and redeliver: the signed event has its id and its time")
	case s.Verify.Authenticates != "body":
		d.at("reconcile.signed", "needs verify.authenticates body, because a list has no headers and no path")
	}
	for path, value := range paths {
		if value == "" {
			d.at("reconcile."+path, "is missing")
			continue
		}
		d.path("reconcile."+path, value)
	}
}

// reconcileAuth checks how the credential is sent.
func (d *specReader) reconcileAuth(r *ReconcileSpec) {
	a := &r.Auth
	d.choice("reconcile.auth.kind", a.Kind, []string{"bearer", "basic", "oauth", "jwt"}, nil)
	if isOAuth := a.Kind == "oauth"; isOAuth != (a.Token != "") || isOAuth && (!strings.HasPrefix(a.Token, "/") || strings.ContainsAny(a.Token, "?#")) {
		d.at("reconcile.auth.token", "goes with kind oauth, which needs it: the path of the address that issues tokens")
	}
	if isJWT := a.Kind == "jwt"; isJWT != (a.KeyID != "") || !isJWT && len(a.Claims) > 0 {
		d.at("reconcile.auth.key_id", "goes with kind jwt, which needs it; so do claims")
	}
	params := r.paramNames()
	d.placeholders("reconcile.auth.key_id", a.KeyID, params)
	for _, name := range slices.Sorted(maps.Keys(a.Claims)) {
		d.placeholders("reconcile.auth.claims."+name, a.Claims[name], params)
		if name == "iat" || name == "exp" {
			d.at("reconcile.auth.claims."+name, "is what Oncegate sets")
		}
	}
}

func (d *specReader) reconcileRequest(r *ReconcileSpec) {
	known := []string{"since", "until"}
	var params []string
	for i := range r.Params {
		p := &r.Params[i]
		switch {
		case !paramName.MatchString(p.Name) || slices.Contains(known, p.Name) || slices.Contains(params, p.Name):
			d.at("reconcile.params", "each has another name, of a-z, 0-9 and _, and none is since or until")
		case p.About == "":
			d.at("reconcile.params", "%s needs about: what it is and where it is found", p.Name)
		}
		params = append(params, p.Name)
	}
	d.choice("reconcile.method", r.Method, []string{http.MethodGet, http.MethodPost}, nil)
	base := placeholder.ReplaceAllString(r.Base, "x")
	if u, err := url.Parse(base); err != nil || u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil {
		d.at("reconcile.base", "is not an https address without a path, such as https://api.example.com")
	}
	d.placeholders("reconcile.base", r.Base, params)
	if !strings.HasPrefix(r.Path, "/") || strings.ContainsAny(r.Path, "?#") {
		d.at("reconcile.path", "is not a path that begins with / and has no query")
	}
	both := slices.Concat(known, params)
	d.placeholders("reconcile.path", r.Path, both)
	for _, name := range slices.Sorted(maps.Keys(r.Query)) {
		d.placeholders("reconcile.query."+name, r.Query[name], both)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		d.headerName("reconcile.headers."+name, name)
		d.placeholders("reconcile.headers."+name, r.Headers[name], both)
		if http.CanonicalHeaderKey(name) == "Authorization" {
			d.at("reconcile.headers."+name, "is what auth sends")
		}
	}
	if (r.Method == http.MethodPost) != (r.Body != "") {
		d.at("reconcile.body", "a POST has one, and a GET has none")
	}
	if r.Body != "" && json.Unmarshal([]byte(placeholder.ReplaceAllStringFunc(r.Body, r.sample)), new(map[string]any)) != nil {
		d.at("reconcile.body", "is no JSON object; write placeholders inside of quotation marks, unless it is a time in s or ms")
	}
	d.placeholders("reconcile.body", r.Body, both)
	asked := strings.Join(slices.Collect(maps.Values(r.Query)), "") + r.Path + r.Body
	if strings.Contains(asked, "{{since}}") || strings.Contains(asked, "{{until}}") {
		d.choice("reconcile.time", r.Time, []string{"s", "ms", "rfc3339"}, nil)
	}
	if r.Order != "newest" && !strings.Contains(asked, "{{since}}") {
		d.at("reconcile.order", "a list that does not begin with the newest event needs {{since}}: it would be read from the sender's first event")
	}
}

// sample replaces a placeholder of the body for a check. A number is the only one that may stand outside of a string.
func (r *ReconcileSpec) sample(found string) string {
	if (found == "{{since}}" || found == "{{until}}") && r.Time != "rfc3339" {
		return "1"
	}
	return "x"
}

func (r *ReconcileSpec) paramNames() (names []string) {
	for i := range r.Params {
		names = append(names, r.Params[i].Name)
	}
	return names
}

func (d *specReader) placeholders(where, text string, known []string) {
	for _, found := range placeholder.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(known, found[1]) {
			d.at(where, "{{%s}} is not known; known are %s", found[1], strings.Join(known, ", "))
		}
	}
}

func (d *specReader) reconcilePage(r *ReconcileSpec) {
	p := &r.Page
	d.choice("reconcile.page.kind", p.Kind, []string{"last", "token", "url", "links", "link"}, nil)
	if byParam := p.Kind == "last" || p.Kind == "token"; byParam != (p.Param != "") {
		d.at("reconcile.page.param", "goes with kind last or token, which need it")
	}
	if byAnswer := p.Kind == "token" || p.Kind == "url" || p.Kind == "links"; byAnswer != (p.Next != "") {
		d.at("reconcile.page.next", "goes with kind token, url or links, which need it")
	}
	if p.Query && (r.Method != http.MethodPost || p.Param == "") {
		d.at("reconcile.page.query", "goes with the param of a POST; that of a GET is in the query anyway")
	}
	if p.Kind == "last" && p.More == "" {
		d.at("reconcile.page.more", "is needed with kind last, whose pages do not say otherwise which one is the last")
	}
	for name, path := range map[string]string{"next": p.Next, "more": p.More} {
		if path != "" {
			d.path("reconcile.page."+name, path)
		}
	}
}

func (d *specReader) reconcileRate(rate *ReconcileRate) {
	switch {
	case rate.Requests == 0 && rate.Per == 0:
	case rate.Requests == 0 || rate.Per <= 0:
		d.at("reconcile.rate", "needs requests and per")
	case rate.Source == "" && rate.Note == "":
		d.at("reconcile.rate", "needs the source of the figure")
	}
	if rate.Source != "" {
		d.link("reconcile.rate.source", rate.Source)
	}
}

func (d *specReader) redeliver(r *ReconcileSpec) {
	again := &r.Redeliver
	d.link("reconcile.redeliver.docs", again.Docs)
	d.choice("reconcile.redeliver.method", again.Method, []string{http.MethodPost, http.MethodPut}, nil)
	if again.Delivery == "" {
		d.at("reconcile.redeliver.delivery", "is missing")
	} else {
		d.path("reconcile.redeliver.delivery", again.Delivery)
	}
	known := append([]string{"delivery"}, r.paramNames()...)
	if !strings.HasPrefix(again.Path, "/") || !strings.Contains(again.Path, "{{delivery}}") {
		d.at("reconcile.redeliver.path", "is not a path with {{delivery}}")
	}
	d.placeholders("reconcile.redeliver.path", again.Path, known)
}
