package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
)

// callRequest is a call. Every repetition sends the same bytes.
type callRequest struct {
	url    *url.URL // of the source
	header http.Header
	body   []byte

	source string
	key    string // for display; empty if the source computes the key
}

// maxCallBody is the most bytes that are read as a payload. A source accepts 1 MiB unless it is
// configured otherwise.
const maxCallBody = 64 << 20

// callHeaders maps the headers that flags and arguments set to the flag or argument that sets them.
var callHeaders = map[string]string{
	"Authorization":       "--secret-env",
	"Idempotency-Key":     "--key",
	"Oncegate-Operation":  "the second argument",
	"Oncegate-Contract":   "--contract",
	"Oncegate-Resumes":    "--resumes",
	"Oncegate-Instead-Of": "--instead-of",
	"Oncegate-Parent":     "--resumes or --instead-of",
	"Oncegate-Step":       "--key-from step=...",
	"Oncegate-Tick":       "--key-from tick=...",
	"Prefer":              "--wait",
}

// connectionHeaders belong to the connection. The client sets them.
var connectionHeaders = []string{
	"Connection", "Content-Encoding", "Content-Length", "Cookie", "Expect", "Host", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// callRequest returns the request that the flags describe.
func (s *shell) callRequest(source, operation string, f callFlags) (*callRequest, error) {
	if f.key != "" && len(f.keyFrom) > 0 {
		return nil, usagef("--key and --key-from exclude each other")
	}
	if strings.ContainsAny(source, "/?#%") || source == "" {
		return nil, usagef("%q is not the name of a source; an address belongs in --url", clean(source))
	}
	r := &callRequest{source: source, header: http.Header{}}
	secret, err := s.callAddressee(r, f)
	if err != nil {
		return nil, err
	}
	if !httpguts.ValidHeaderFieldValue(secret) {
		return nil, usagef("the secret has characters that no header can carry; is it the right one?")
	}
	r.header.Set("Authorization", "Bearer "+secret)
	if err := checkHeaderText("the operation", operation); err != nil {
		return nil, err
	}
	r.header.Set("Oncegate-Operation", operation)
	if f.resumes != "" && f.insteadOf != "" {
		return nil, usagef("--resumes and --instead-of exclude each other: the first leaves out what the earlier call has done, the second has all of this call done")
	}
	for flag, text := range map[string]string{"--contract": f.contract, "--resumes": f.resumes, "--instead-of": f.insteadOf} {
		if text == "" {
			continue
		}
		if err := checkHeaderText(flag, text); err != nil {
			return nil, err
		}
		r.header.Set("Oncegate-"+flag[2:], text)
	}
	if r.body, err = s.callData(f.data); err != nil {
		return nil, err
	}
	switch {
	case len(r.body) == 0:
	case json.Valid(r.body):
		r.header.Set("Content-Type", "application/json")
	default:
		r.header.Set("Content-Type", "application/octet-stream")
	}
	if err := r.setKey(f, providers.IsSessionToken(secret)); err != nil {
		return nil, err
	}
	return r, r.addHeaders(f.headers)
}

// callAddressee determines the address of the source and the secret. It reads the configuration
// only for values that the flags do not give, so that a caller on another machine needs no
// configuration.
func (s *shell) callAddressee(r *callRequest, f callFlags) (secret string, err error) {
	if f.secretEnv != "" && f.secretFile != "" || f.credential != "" && (f.secretEnv != "" || f.secretFile != "") {
		return "", usagef("--secret-env, --secret-file and --credential exclude each other")
	}
	switch {
	case f.secretEnv != "":
		if secret = s.env(f.secretEnv); secret == "" {
			return "", usagef("--secret-env: environment variable %s is not set or empty", clean(f.secretEnv))
		}
	case f.secretFile != "":
		if secret, err = config.ReadSecretFile(f.secretFile); err != nil {
			return "", usagef("--secret-file: %s", oneLine(err.Error()))
		}
	}
	address, from := f.url, "--url"
	if address == "" {
		address, from = s.env("ONCEGATE_URL"), "ONCEGATE_URL"
	}
	if secret == "" || address == "" {
		found, err := s.configuredCall(r.source, f, secret == "")
		if err != nil {
			return "", err
		}
		secret = cmp.Or(secret, found.secret)
		if address == "" {
			address, from = found.address, "the address of the source"
		}
	}
	r.url, err = callURL(address, from, r.source)
	return secret, err
}

// foundCall contains the values that the configuration supplies for a call.
type foundCall struct{ address, secret string }

func (s *shell) configuredCall(name string, f callFlags, secret bool) (foundCall, error) {
	cfg, err := s.load()
	if err != nil {
		state, running := s.readDevState()
		if running && s.configFile == "" && !secret {
			return foundCall{address: state.Public}, nil
		}
		if s.configFile == "" && s.env("ONCEGATE_CONFIG") == "" && noConfiguration(err) {
			if secret {
				return foundCall{}, usagef("no secret to call with: add --secret-env NAME or --secret-file PATH, or name the server's configuration with --config")
			}
			return foundCall{}, usagef("no server to call: add --url https://..., set ONCEGATE_URL, or name the server's configuration with --config")
		}
		return foundCall{}, err
	}
	var known []string
	for _, source := range cfg.Sources {
		if !source.Provider.IsOperation() {
			if source.Name == name {
				return foundCall{}, usagef("source %s takes webhooks of %s, not operations: `oncegate send` sends it one", source.Name, source.Provider.Name())
			}
			continue
		}
		known = append(known, source.Name)
		if source.Name != name {
			continue
		}
		found := foundCall{address: source.ExternalURL}
		if found.address == "" {
			found.address = loopback(cfg.Listen.Public) + "/in/" + source.Name
		}
		if secret {
			if found.secret, err = credentialSecret(source, f.credential); err != nil {
				return foundCall{}, err
			}
		}
		return found, nil
	}
	if len(known) == 0 {
		return foundCall{}, usagef("unknown source %q: the configuration has no source of operations", clean(name))
	}
	return foundCall{}, usagef("unknown source %q; %ssources of operations are %s", clean(name), yamltree.DidYouMean(known, name), strings.Join(known, ", "))
}

// noConfiguration reports whether there is no configuration at all, as opposed to an invalid one.
func noConfiguration(err error) bool {
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		return false
	}
	if _, err := os.Stat(config.DefaultFile); err == nil {
		return false
	}
	return len(problems) > 0
}

// credentialSecret returns the newest secret of a credential.
func credentialSecret(source *config.Source, credential string) (string, error) {
	var names []string
	for _, secret := range source.Keys() {
		name := cmp.Or(secret.Credential, secret.Name)
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		if name == credential {
			return string(secret.Value), nil
		}
	}
	switch {
	case credential != "":
		return "", usagef("--credential %q: source %s has no such credential; it has %s", clean(credential), source.Name, strings.Join(names, ", "))
	case len(names) == 0:
		return "", usagef("source %s has no secret to call with: add --secret-env NAME", source.Name)
	case len(names) > 1:
		return "", usagef("source %s has several credentials: add --credential with one of %s", source.Name, strings.Join(names, ", "))
	}
	return string(source.Keys()[0].Value), nil
}

// callURL returns the address of a source, based on the address that the user gave.
func callURL(address, from, source string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" {
		return nil, usagef("%s %q is not an address such as https://hooks.example.com", from, cleanURL(address))
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, usagef("%s %q has more than a host and a path; the secret belongs in --secret-env", from, cleanURL(address))
	}
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), ""
	if from == "the address of the source" || strings.HasSuffix(u.Path, "/in/"+source) {
		return u, nil
	}
	if i := strings.LastIndex(u.Path, "/in/"); i >= 0 {
		return nil, usagef("%s %q names the source %s, and the command the source %s", from, cleanURL(address), clean(u.Path[i+len("/in/"):]), clean(source))
	}
	u.Path += "/in/" + source
	return u, nil
}

// callData returns the payload.
func (s *shell) callData(data string) ([]byte, error) {
	var in io.Reader
	switch path, isFile := strings.CutPrefix(data, "@"); {
	case data == "-", data == "@-":
		in = s.in
	case !isFile:
		return []byte(data), nil
	case path == "":
		return nil, usagef("--data @ names no file: write @file, - for stdin, or the text itself")
	default:
		file, err := os.Open(path)
		if err != nil {
			return nil, usagef("--data: %s", oneLine(err.Error()))
		}
		defer file.Close()
		in = file
	}
	content, err := io.ReadAll(io.LimitReader(in, maxCallBody+1))
	if err != nil {
		return nil, usagef("--data: %s", oneLine(err.Error()))
	}
	if len(content) > maxCallBody {
		return nil, usagef("--data is longer than %d MiB", maxCallBody>>20)
	}
	return content, nil
}

// partName is the form of the name of a key part. The name is also the name of a header.
var partName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,63}$`)

// orderedParts lists the parts that come first in a key, regardless of their order on the command
// line.
var orderedParts = []string{"run", "step", "tick"}

// setKey sets the headers for the key.
func (r *callRequest) setKey(f callFlags, session bool) error {
	if session {
		return r.setStep(f)
	}
	if f.key != "" {
		for i := range len(f.key) {
			if f.key[i] <= 0x20 || f.key[i] >= 0x7f {
				return usagef("--key has characters other than visible ASCII; --key-from escapes them")
			}
		}
		r.key = f.key
		r.header.Set("Idempotency-Key", f.key)
		return nil
	}
	if len(f.keyFrom) == 0 {
		return nil // a source with a recipe needs no key; any other source reports that it is missing
	}
	names, values, err := keyParts(f.keyFrom)
	if err != nil {
		return err
	}
	var parts []string
	for _, name := range orderedNames(names) {
		value := values[name]
		parts = append(parts, value)
		header := name
		if name == "run" {
			header = "Run-Id"
		}
		r.header.Set(header, value)
	}
	r.key = providers.KeyFrom(parts...)
	r.header.Set("Idempotency-Key", r.key)
	return nil
}

// setStep sets the header for the step of a session. The session supplies the rest of the key.
func (r *callRequest) setStep(f callFlags) error {
	if f.key != "" {
		return usagef("--key does not go with a session, which makes the key: use --key-from step=...")
	}
	names, values, err := keyParts(f.keyFrom)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != "step" && name != "tick" {
			return usagef("--key-from %s=: a session has the rest of the key; it takes step, and tick if the step happens several times", clean(name))
		}
	}
	if values["step"] == "" {
		return usagef("--key-from step=... is missing: under a session the step distinguishes the calls of its run")
	}
	r.header.Set("Oncegate-Step", values["step"])
	if tick := values["tick"]; tick != "" {
		r.header.Set("Oncegate-Tick", tick)
	}
	return nil
}

func keyParts(pairs []string) (names []string, values map[string]string, err error) {
	values = make(map[string]string, len(pairs))
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || !partName.MatchString(name) {
			return nil, nil, usagef("--key-from %q is not name=value, such as run=42,step=3; a part with a comma is put in double quotes", clean(pair))
		}
		header := http.CanonicalHeaderKey(name)
		switch _, twice := values[name]; {
		case twice:
			return nil, nil, usagef("--key-from names %s twice", name)
		case callHeaders[header] != "", slices.Contains(connectionHeaders, header), header == "Content-Type":
			return nil, nil, usagef("--key-from %s=: the call has a header of this name already; choose another name", name)
		case value == "":
			return nil, nil, usagef("--key-from %s= has no value", name)
		case value != strings.TrimSpace(value), !httpguts.ValidHeaderFieldValue(value):
			return nil, nil, usagef("--key-from %s= begins or ends with a space, or has control characters, which no header keeps", name)
		}
		values[name] = value
		names = append(names, name)
	}
	return names, values, nil
}

func orderedNames(names []string) []string {
	var out []string
	for _, name := range orderedParts {
		if slices.Contains(names, name) {
			out = append(out, name)
		}
	}
	for _, name := range names {
		if !slices.Contains(orderedParts, name) {
			out = append(out, name)
		}
	}
	return out
}

func (r *callRequest) addHeaders(lines []string) error {
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		header := http.CanonicalHeaderKey(name)
		switch {
		case !ok || !httpguts.ValidHeaderFieldName(name): // the line may be a secret, so the error does not quote it
			return usagef("--header is not 'Name: value'")
		case !httpguts.ValidHeaderFieldValue(value):
			return usagef("--header %s: the value has control characters", header)
		case callHeaders[header] != "":
			return usagef("--header %s: this header is made by %s", header, callHeaders[header])
		case slices.Contains(connectionHeaders, header):
			return usagef("--header %s: this header belongs to the connection and cannot be set", header)
		case header == "Content-Type":
			r.header.Set(header, value)
		case r.header.Get(header) != "":
			return usagef("--header %s is there twice", header)
		default:
			r.header.Set(header, value)
		}
	}
	return nil
}

func checkHeaderText(what, text string) error {
	if text == "" || text != strings.TrimSpace(text) || !httpguts.ValidHeaderFieldValue(text) {
		return usagef("%s is empty, begins or ends with a space, or has control characters", what)
	}
	return nil
}

// newRequest returns a request of the call. The method GET requests a result.
func (r *callRequest) newRequest(method string, to *url.URL) *http.Request {
	request := &http.Request{Method: method, URL: to, Host: to.Host, Header: http.Header{}}
	if method == http.MethodPost {
		request.Header = r.header.Clone()
		request.Body = io.NopCloser(bytes.NewReader(r.body))
		request.ContentLength = int64(len(r.body))
		if len(r.body) == 0 {
			request.Body = http.NoBody
		}
		return request
	}
	request.Header.Set("Authorization", r.header.Get("Authorization"))
	return request
}
