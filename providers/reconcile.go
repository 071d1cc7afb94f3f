package providers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

// Reconciling is what a source adds to its provider's list of events, apart from the credential.
type Reconciling struct {
	// Base replaces the provider's base, for a sandbox or a server of your own. Empty does not.
	// Plain http is accepted for a loopback address only, because the TLS connection is the proof.
	Base string

	// Params are the values of the parameters that the provider declares.
	Params map[string]string

	// Settings are the settings of the source. Listing verifies signed events with them.
	Settings map[string][]string
}

// Listing makes the requests for a sender's list of events, and reads its answers. It opens no
// socket and is safe for concurrent use.
type Listing struct {
	provider *Provider
	spec     *ReconcileSpec
	base     *url.URL
	params   map[string]string

	answer, element     *jsonspan.PathSet
	events, next, more  int // slots in answer; next and more are -1 if there is none
	event, id, created  int // slots in element; id and created are -1 if the event is signed
	delivery            int // in element; -1 without redelivery
	wrapStart, wrapLast string
}

// ErrNoList is returned for a provider whose sender has no list that can be asked, as far as the
// catalogue knows.
var ErrNoList = errors.New("the provider has no reconcile section")

// Listing returns the list of the sender's events with the values of one source. The error names every
// problem.
func (p *Provider) Listing(given Reconciling) (*Listing, error) {
	spec := &p.spec.Reconcile
	if !spec.Present() {
		return nil, ErrNoList
	}
	l := &Listing{provider: p, spec: spec, params: map[string]string{}, next: -1, more: -1, id: -1, created: -1, delivery: -1}
	errs := l.setParams(given.Params)
	var err error
	if l.base, err = l.setBase(given.Base); err != nil {
		errs = append(errs, err)
	}
	if spec.Signed {
		if l.provider, err = p.Bind(Binding{Settings: given.Settings}); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	l.answer, l.element = jsonspan.NewPathSet(), jsonspan.NewPathSet()
	l.events = l.answer.Add(spec.Events)
	if spec.Page.Next != "" {
		l.next = l.answer.Add(spec.Page.Next)
	}
	if spec.Page.More != "" {
		l.more = l.answer.Add(spec.Page.More)
	}
	l.event = l.element.Add(spec.Event)
	if !spec.Signed {
		l.id, l.created = l.element.Add(spec.ID), l.element.Add(spec.Created.JSON)
	}
	if spec.Redelivers() {
		l.delivery = l.element.Add(spec.Redeliver.Delivery)
	}
	l.wrapStart, l.wrapLast, _ = strings.Cut(spec.Wrap, "{{event}}")
	return l, nil
}

func (l *Listing) setParams(given map[string]string) (errs []error) {
	var known []string
	for i := range l.spec.Params {
		declared := &l.spec.Params[i]
		known = append(known, declared.Name)
		value := given[declared.Name]
		if value == "" {
			value = declared.Default
		}
		if value == "" {
			errs = append(errs, fmt.Errorf("params.%s is missing: %s", declared.Name, declared.About))
		}
		l.params[declared.Name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case slices.Contains(known, name):
		case len(known) == 0:
			errs = append(errs, fmt.Errorf("params.%s is unknown; provider %s takes none", name, l.provider.name))
		default:
			errs = append(errs, fmt.Errorf("params.%s is unknown; known are %s", name, strings.Join(known, ", ")))
		}
	}
	return errs
}

// hostLabel is what a parameter may contain inside of an address. With a dot, a slash or an @, a value
// could select another host.
var hostLabel = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

func (l *Listing) setBase(given string) (*url.URL, error) {
	text := given
	if text == "" {
		text = l.spec.Base
		for _, found := range placeholder.FindAllStringSubmatch(text, -1) {
			if value := l.params[found[1]]; value != "" && !hostLabel.MatchString(value) {
				return nil, fmt.Errorf("params.%s is part of a host name and may contain letters, digits and - only", found[1])
			}
		}
		text = placeholder.ReplaceAllStringFunc(text, func(found string) string { return l.params[found[2:len(found)-2]] })
	}
	base, err := url.Parse(text)
	switch {
	case err != nil || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return nil, errors.New("base is not an address such as https://api.example.com")
	case base.Scheme == "https", base.Scheme == "http" && loopback(base.Hostname()):
	default:
		return nil, errors.New("base is not https: the TLS connection is what proves the origin of the events")
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	return base, nil
}

func loopback(host string) bool { return host == "127.0.0.1" || host == "::1" || host == "localhost" }

// Host returns the host to which the requests go, with its port if the address has one.
func (l *Listing) Host() string { return l.base.Host }

// Hostname returns the host without its port.
func (l *Listing) Hostname() string { return l.base.Hostname() }

// Spec returns the section of the provider's spec. Do not change it.
func (l *Listing) Spec() *ReconcileSpec { return l.spec }

// ListRequest is one request to a sender's API. It contains no credential.
type ListRequest struct {
	Method, URL string
	Header      http.Header
	Body        []byte
}

// ErrElsewhere is returned for a page whose address is on another host, or that is no page of this list.
var ErrElsewhere = errors.New("the next page is not on the host of the list")

// Request returns the request for a page of the events that were created from since to until. The cursor
// is empty for the first page, and otherwise what [Listing.Page] returned as Next.
func (l *Listing) Request(since, until time.Time, cursor string) (*ListRequest, error) {
	values := maps.Clone(l.params)
	values["since"], values["until"] = l.instant(since), l.instant(until)
	out := &ListRequest{Method: l.spec.Method, Header: http.Header{"Accept": {"application/json"}}}
	for name, value := range l.spec.Headers {
		out.Header.Set(name, fillIn(value, values, nil))
	}
	if cursor != "" && l.spec.Page.Param == "" {
		at, err := l.base.Parse(cursor)
		if err != nil || at.Scheme != l.base.Scheme || at.Host != l.base.Host || at.User != nil {
			return nil, ErrElsewhere
		}
		out.URL = at.String()
		return out, nil
	}
	query := url.Values{}
	for name, value := range l.spec.Query {
		if filled := fillIn(value, values, nil); filled != "" {
			query.Set(name, filled)
		}
	}
	inQuery := l.spec.Method != http.MethodPost || l.spec.Page.Query
	if inQuery && cursor != "" {
		query.Set(l.spec.Page.Param, cursor)
	}
	if l.spec.Method == http.MethodPost {
		member := cursor
		if inQuery {
			member = ""
		}
		body, err := l.body(values, member)
		if err != nil {
			return nil, err
		}
		out.Body = body
		out.Header.Set("Content-Type", "application/json")
	}
	out.URL = l.base.String() + fillIn(l.spec.Path, values, url.PathEscape)
	if encoded := query.Encode(); encoded != "" {
		out.URL += "?" + encoded
	}
	return out, nil
}

// body returns the body of a POST, with the cursor of the page.
func (l *Listing) body(values map[string]string, cursor string) ([]byte, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(fillIn(l.spec.Body, values, quoteInside)), &members); err != nil {
		return nil, fmt.Errorf("making the body of the request: %w", err)
	}
	if cursor != "" {
		members[l.spec.Page.Param] = json.RawMessage(`"` + quoteInside(cursor) + `"`)
	}
	return json.Marshal(members)
}

// Redelivery returns the request that makes the sender deliver an event again.
func (l *Listing) Redelivery(delivery string) *ListRequest {
	values := maps.Clone(l.params)
	values["delivery"] = delivery
	out := &ListRequest{Method: l.spec.Redeliver.Method, Header: http.Header{"Accept": {"application/json"}}}
	for name, value := range l.spec.Headers {
		out.Header.Set(name, fillIn(value, values, nil))
	}
	out.URL = l.base.String() + fillIn(l.spec.Redeliver.Path, values, url.PathEscape)
	return out
}

// TokenURL returns the address that issues tokens, for a list whose authentication is oauth.
func (l *Listing) TokenURL() string { return l.base.String() + l.spec.Auth.Token }

// TokenClaims returns the key id and the claims of a token, for a list whose authentication is jwt.
func (l *Listing) TokenClaims() (keyID string, claims map[string]any) {
	claims = map[string]any{}
	for name, value := range l.spec.Auth.Claims {
		claims[name] = fillIn(value, l.params, nil)
	}
	return fillIn(l.spec.Auth.KeyID, l.params, nil), claims
}

// CheckCredential returns an error for a credential in the wrong form. For a list whose authentication is jwt it returns
// the key.
func (l *Listing) CheckCredential(credential []byte) (*ecdsa.PrivateKey, error) {
	switch l.spec.Auth.Kind {
	case "oauth":
		if id, secret, _ := strings.Cut(string(credential), ":"); id == "" || secret == "" {
			return nil, errors.New("is not client_id:client_secret")
		}
	case "jwt":
		if block, _ := pem.Decode(credential); block != nil {
			parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if key, ok := parsed.(*ecdsa.PrivateKey); err == nil && ok && key.Curve == elliptic.P256() {
				return key, nil
			}
		}
		return nil, errors.New("is not a private key of the curve P-256 in PEM (PKCS #8), such as a file AuthKey_*.p8")
	}
	return nil, nil //nolint:nilnil // the other kinds have no key
}

func (l *Listing) instant(t time.Time) string {
	switch l.spec.Time {
	case "s":
		return strconv.FormatInt(t.Unix(), 10)
	case "ms":
		return strconv.FormatInt(t.UnixMilli(), 10)
	}
	return t.UTC().Format(time.RFC3339)
}

// fillIn replaces the placeholders of a text.
func fillIn(text string, values map[string]string, escape func(string) string) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		value := values[found[2:len(found)-2]]
		if escape != nil {
			value = escape(value)
		}
		return value
	})
}

// quoteInside escapes a text for the inside of a JSON string.
func quoteInside(s string) string {
	quoted, err := json.Marshal(s)
	if err != nil {
		return ""
	}
	return string(quoted[1 : len(quoted)-1])
}
