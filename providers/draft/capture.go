package draft

import (
	"bytes"
	"encoding/json"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncegate/oncegate/providers"
)

// captured is the request, split into its values.
type captured struct {
	req     *providers.Request
	headers []leaf // without the headers of proxies and HTTP clients
	query   []leaf
	form    []leaf
	formed  bool     // the body is a form
	inForm  string   // the form field that contains the JSON document
	doc     any      // the JSON document, nil if there is none
	json    []leaf   // the scalars of doc
	tries   bool     // another request is a try of the same event
	changed []string // the members that differ between tries of one event
	items   []leaf   // the scalars of the first element, if doc is a list of events
}

// leaf is one value of the request with its name or path.
type leaf struct {
	kind  string // header, query, form or json
	name  string
	value string
	text  bool // a JSON string, not a number
}

func (l *leaf) where() string {
	switch l.kind {
	case "json":
		return "JSON " + l.name
	case "form":
		return "form field " + l.name
	case "query":
		return "query parameter " + l.name
	}
	return "header " + l.name
}

// common lists headers that are not part of a sender's protocol.
var common = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Accept-Language": true, "Accept-Charset": true, "Connection": true, "Content-Length": true,
	"Transfer-Encoding": true, "User-Agent": true, "Cookie": true, "Via": true, "Forwarded": true, "Cache-Control": true,
	"Pragma": true, "Traceparent": true, "Tracestate": true, "X-Real-Ip": true, "X-Amzn-Trace-Id": true, "Cdn-Loop": true, "Expect": true,
	"Keep-Alive": true, "Upgrade-Insecure-Requests": true, "Origin": true, "Referer": true, "Te": true, "Content-Encoding": true,
	"Sentry-Trace": true, "Baggage": true, "X-Cloud-Trace-Context": true, "X-Request-Start": true, "Postman-Token": true,
}

func isCommon(name string) bool {
	return common[name] || strings.HasPrefix(name, "X-Forwarded-") || slices.Contains([]string{"Cf-Ray", "Cf-Connecting-Ip", "Cf-Ipcountry", "Cf-Visitor", "Cf-Worker", "Cf-Ew-Via"}, name) || strings.HasPrefix(name, "X-Envoy-") ||
		strings.HasPrefix(name, "Sec-") || strings.HasPrefix(name, "X-B3-") || strings.HasPrefix(name, "X-Datadog-")
}

// maxLeaves limits how many scalars are read from a document.
const maxLeaves = 400

func capture(req *providers.Request) *captured {
	c := &captured{req: req}
	for _, name := range slices.Sorted(maps.Keys(req.Header)) {
		if isCommon(http.CanonicalHeaderKey(name)) {
			continue
		}
		for _, value := range req.Header[name] {
			c.headers = append(c.headers, leaf{kind: "header", name: http.CanonicalHeaderKey(name), value: value})
		}
	}
	if u, err := url.Parse(req.URL); err == nil {
		c.query = values("query", u.Query())
	}
	document := req.Body
	media, parameters, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if media == "application/x-www-form-urlencoded" {
		if form, err := url.ParseQuery(string(req.Body)); err == nil {
			c.formed, c.form = true, values("form", form)
			document = nil
			for _, field := range c.form {
				if strings.HasPrefix(strings.TrimSpace(field.value), "{") && json.Valid([]byte(field.value)) {
					c.inForm, document = field.name, []byte(field.value)
					break
				}
			}
		}
	}
	if media == "multipart/form-data" {
		if form, ok := parts(req.Body, parameters["boundary"]); ok {
			c.form, document = values("form", form), nil
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	if decoder.Decode(&c.doc) != nil {
		c.doc = nil
	}
	c.walk("", c.doc, 0)
	if list, ok := c.doc.([]any); ok && len(list) > 0 {
		first := captured{}
		first.walk("", list[0], 0)
		c.items = first.json
	}
	return c
}

// parts returns the text fields of a multipart form. It ignores files.
func parts(body []byte, boundary string) (url.Values, bool) {
	form, err := multipart.NewReader(bytes.NewReader(body), boundary).ReadForm(1 << 20)
	if err != nil {
		return nil, false
	}
	return form.Value, true
}

func values(kind string, all url.Values) []leaf {
	var out []leaf
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if len(all[name]) == 1 && name != "" {
			out = append(out, leaf{kind: kind, name: name, value: all[name][0]})
		}
	}
	return out
}

// walk collects the scalars whose path a provider can express, those near the root first.
func (c *captured) walk(path string, value any, depth int) {
	if depth > 4 || len(c.json) >= maxLeaves {
		return
	}
	object, ok := value.(map[string]any)
	if !ok {
		return
	}
	names := slices.Sorted(maps.Keys(object))
	for _, name := range names {
		if name == "" || strings.ContainsAny(name, `.[]"*$`) {
			continue
		}
		at := name
		if path != "" {
			at = path + "." + name
		}
		switch value := object[name].(type) {
		case string:
			c.json = append(c.json, leaf{"json", at, value, true})
		case json.Number:
			c.json = append(c.json, leaf{"json", at, value.String(), false})
		}
	}
	for _, name := range names {
		if name == "" || strings.ContainsAny(name, `.[]"*$`) {
			continue
		}
		at := name
		if path != "" {
			at = path + "." + name
		}
		c.walk(at, object[name], depth+1)
	}
}

// header returns the value of a header, or an empty string if the request does not have it.
func (c *captured) header(name string) string { return c.req.Header.Get(name) }

// clock is a time found in the request, with its original text and unit.
type clock struct {
	raw, unit string
	at        time.Time
}

// earliest and latest limit the numbers that readClock accepts as times.
var earliest, latest = time.Date(2005, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

var layouts = []string{
	"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999Z0700",
	"2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05 MST", "Mon, 2 Jan 2006 15:04:05 GMT", "Mon, 2 Jan 2006 15:04:05 -0700",
}

// readClock recognises a time by its shape.
func readClock(value string) (clock, bool) {
	out := clock{raw: value}
	if n, err := strconv.ParseInt(value, 10, 64); err == nil && strconv.FormatInt(n, 10) == value {
		switch len(value) {
		case 10:
			out.unit, out.at = "s", time.Unix(n, 0)
		case 13:
			out.unit, out.at = "ms", time.UnixMilli(n)
		case 16:
			out.unit, out.at = "us", time.UnixMicro(n)
		case 19:
			out.unit, out.at = "ns", time.Unix(0, n)
		default:
			return clock{}, false
		}
		return out, out.at.After(earliest) && out.at.Before(latest)
	}
	if len(value) < 19 || len(value) > 40 {
		return clock{}, false
	}
	if t, err := time.Parse(time.RFC3339Nano, value); err == nil {
		out.unit, out.at = "rfc3339", t
		return out, t.After(earliest) && t.Before(latest)
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, value); err == nil {
			out.unit, out.at = "datetime", t
			return out, t.After(earliest) && t.Before(latest)
		}
	}
	return clock{}, false
}

var (
	notName  = regexp.MustCompile(`[^a-z0-9]+`)
	signWord = regexp.MustCompile(`(?i)(^|-)(x|webhook|webhooks|hook|signature|signatures|sig|hmac|sha1|sha256|sha512|sha2|v[0-9]+|token|secret|auth|content|request|event|payload|digest|hash|body|api|key|callback|hub|authorization|ed25519|[0-9]+)(-|$)`)
	agent    = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9]{2,30})`)
	clients  = []string{"curl", "python", "go", "axios", "okhttp", "node", "ruby", "java", "apache", "mozilla", "wget", "guzzlehttp", "got", "undici", "faraday", "httpie", "postmanruntime", "webhook", "webhooks", "hook"}
)

// name derives the provider's name from the header that contains the signature, or else from
// another header that names the sender.
func (c *captured) name(o Options) string {
	pick := ""
	for _, h := range c.headers {
		rest := h.name
		for signWord.MatchString(rest) {
			rest = signWord.ReplaceAllString(rest, "-")
		}
		rest = strings.Trim(notName.ReplaceAllString(strings.ToLower(rest), "-"), "-")
		if rest != "" && signWord.MatchString(h.name) && !slices.Contains([]string{"type", "id", "delivery", "timestamp", "host", "time", "topic", "length"}, rest) {
			rest = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(rest, "-timestamp"), "-id"), "-delivery")
			pick = rest
			if strings.Contains(strings.ToLower(h.name), "sig") || strings.Contains(strings.ToLower(h.name), "hmac") {
				break
			}
		}
	}
	if m := agent.FindString(c.header("User-Agent")); pick == "" && m != "" && !slices.Contains(clients, strings.ToLower(m)) {
		pick = strings.ToLower(m)
	}
	if len(pick) < 2 || len(pick) > 40 || pick[0] < 'a' || pick[0] > 'z' {
		pick = "drafted"
	}
	if o.Catalog[pick] != nil {
		pick += "-drafted"
	}
	return pick
}
