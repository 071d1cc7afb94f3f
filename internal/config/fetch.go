package config

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// Fetch configures the request that gets what an event only names, before an effect.
type Fetch struct {
	// URL is the address of the GET request. Its path and query may contain expressions in braces, or it
	// is one expression.
	URL string
	// Values maps the text of each expression in URL to its program.
	Values map[string]*expression.Program
	// Hosts are the only servers that the request may go to. They default to the server of URL.
	Hosts []string
	// Bearer is at most one token.
	Bearer []Reference
	// Headers are sent with the request. Their values are never printed.
	Headers map[string]string
	// Allow are private networks that the host names may lead to.
	Allow []netip.Prefix
	// Timeout limits one request. It defaults to 10 s.
	Timeout time.Duration
	// MaxSize limits the answer in bytes. It defaults to 256 KiB.
	MaxSize int64

	node *yamltree.Node
}

// Server names what the fetch asks: all fetches with the same name share a breaker.
func (f *Fetch) Server() string {
	if len(f.Hosts) > 0 {
		hosts := slices.Clone(f.Hosts)
		slices.Sort(hosts)
		return strings.Join(hosts, " ")
	}
	origin, rest, _ := strings.Cut(f.URL, "://")
	host, _, _ := strings.Cut(rest, "/")
	host, _, _ = strings.Cut(host, "?")
	return origin + "://" + host
}

// ShownURL returns the address as people may see it.
func (f *Fetch) ShownURL() string { return shownAddress(f.node.Member("url"), f.URL) }

// Config returns the configuration of the fetch for package forward. The caller must set the functions
// for the values.
func (f *Fetch) Config() forward.FetcherConfig {
	cfg := forward.FetcherConfig{
		URL: f.URL, Values: addressValues(f.Values), Hosts: f.Hosts, Headers: f.Headers, Allow: f.Allow, MaxSize: f.MaxSize, Timeout: f.Timeout,
	}
	if len(f.Bearer) > 0 {
		cfg.Bearer = f.Bearer[0].Current
	}
	return cfg
}

// Current returns the value of a secret now. A file is read again, because another process may have
// replaced a token that expires.
func (r Reference) Current() (string, error) {
	path, isFile := strings.CutPrefix(r.From, "file:")
	if !isFile {
		return string(r.secret.Value), nil
	}
	token, err := ReadSecretFile(path)
	if err != nil {
		return "", errors.New("its file cannot be read, or is empty")
	}
	return token, nil
}

func (f *Fetch) keys() []Key {
	return []Key{
		reference("url", &f.URL, fetchURL, "required", "The address that is asked with GET. [Expressions](#expressions) in braces may stand in its path and its query, as in `https://api.example/payments/{body.id}`; their values are escaped. A `url` that is one expression, such as `\"{body.resource_url}\"`, is an address that the event contains: it needs `hosts`.").
			masked(func(string) string { return f.ShownURL() }),
		list("hosts", &f.Hosts, words(verbatim), "the server of `url`", "The only servers that are asked: `api.example`, `api.example:8443`, or `http://localhost:9000` for one without TLS. `*.shop.example` is every host below `shop.example`.").notEmpty("; leave it out to ask the server of url"),
		secrets("bearer", &f.Bearer, "none", "A reference to the token of `Authorization: Bearer`. A `file` is read again for each request, so that another program can replace a token that expires."),
		headers("headers", &f.Headers, "none", "Headers of the request. Their values are never printed."),
		list("allow", &f.Allow, network, "none", "Private networks that the names in `url` or `hosts` may lead to."),
		value("timeout", &f.Timeout, duration, "`10s`", "The longest request. Together with the `timeout` of the route it must fit into `work.lease`, as one attempt."),
		value("max_size", &f.MaxSize, size, "`256KiB`", "The largest answer, at most `8MiB`. A larger one makes a dead letter (`fetch_refused`)."),
	}
}

// fetchURL parses the address of a fetch.
func fetchURL(s string) (string, error) {
	literals, _, whole, err := forward.SplitFetch(s)
	if err == nil && !whole {
		_, err = httpURL(strings.Join(literals, "x"))
	}
	if err != nil {
		return "", errors.New(strings.TrimPrefix(err.Error(), "url: "))
	}
	return s, nil
}

func (r *reader) fetch(n *yamltree.Node) *Fetch {
	f := &Fetch{node: n}
	r.fields(n, f.keys())
	if !n.Sound() {
		return f
	}
	if f.URL == "" {
		n.Fail("url is missing: the address of what the event names, such as https://api.example/payments/{body.id}")
		return f
	}
	if len(f.Bearer) > 1 {
		n.Below("bearer").Fail("a request carries one token")
	}
	_, texts, _, _ := forward.SplitFetch(f.URL)
	if f.Values = r.keylessValues(n.Member("url"), texts, "a fetch"); !n.Sound() {
		return f
	}
	_, err := forward.NewFetcher(f.Config())
	failLines(n, err)
	return f
}

// keylessValues compiles the expressions of an address that can use neither an idempotency key nor an
// answer. of names whose address it is.
func (r *reader) keylessValues(at *yamltree.Node, texts []string, of string) map[string]*expression.Program {
	var out map[string]*expression.Program
	written, _ := at.Text()
	for _, text := range texts {
		program, err := expression.Compile(text, expression.Value)
		switch {
		case err == nil:
			if out == nil {
				out = map[string]*expression.Program{}
			}
			out[text] = program
		case isReference(written):
			at.Fail("an expression in braces is not valid; %s carries no key, so key and key_uuid cannot stand there", of)
		default:
			at.Fail("{%s} is no expression of %s, which carries no key: %v", text, of, err)
		}
	}
	return out
}

// checkFetched reports expressions that read the answer of a fetch that the route does not make.
func checkFetched(route *Route) {
	if route.Fetch != nil || !route.node.Sound() {
		return
	}
	const missing = "reads fetched, and the route has no fetch: add fetch with a url"
	fail := func(key string, reads bool) {
		if reads {
			route.node.Below(key).FailKey(missing)
		}
	}
	reads := func(p *expression.Program) bool { return p != nil && p.ReadsFetched() }
	fail("when", reads(route.When))
	fail("map", route.Map != nil && route.Map.ReadsFetched())
	fail("key", route.Key != nil && route.Key.Recipe != nil && route.Key.Recipe.ReadsFetched())
	fail("mail", route.Mail != nil && (reads(route.Mail.To) || reads(route.Mail.Attachments)))
	for _, p := range route.Target.Values {
		if reads(p) {
			route.node.Below("target").FailKey("url of target %s %s", route.Target.Name, missing)
		}
	}
	for name, p := range route.Target.Parameters {
		if reads(p) {
			route.node.Below("target").FailKey("parameter %s of target %s %s", name, route.Target.Name, missing)
		}
	}
}
