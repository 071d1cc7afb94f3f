package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
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
	switch {
	case f.Key != "" && len(f.KeyFrom) > 0:
		return nil, usagef("--key and --key-from exclude each other")
	case strings.ContainsAny(source, "/?#%") || source == "":
		return nil, usagef("%q is not the name of a source; an address belongs in --url", clean(source))
	case f.Resumes != "" && f.InsteadOf != "":
		return nil, usagef("--resumes and --instead-of exclude each other: the first leaves out what the earlier call has done, the second has all of this call done")
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
	for _, h := range []struct{ from, name, text string }{
		{"the operation", "Oncegate-Operation", cmp.Or(operation, " ")}, {"--contract", "Oncegate-Contract", f.Contract},
		{"--resumes", "Oncegate-Resumes", f.Resumes}, {"--instead-of", "Oncegate-Instead-Of", f.InsteadOf},
	} {
		switch {
		case h.text == "":
		case h.text != strings.TrimSpace(h.text) || !httpguts.ValidHeaderFieldValue(h.text):
			return nil, usagef("%s is empty, begins or ends with a space, or has control characters", h.from)
		default:
			r.header.Set(h.name, h.text)
		}
	}
	if r.body, err = s.callData(f.Data); err != nil {
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
	if f.SecretEnv != "" && f.SecretFile != "" || f.Credential != "" && f.SecretEnv+f.SecretFile != "" {
		return "", usagef("--secret-env, --secret-file and --credential exclude each other")
	}
	if secret, err = s.givenSecret(f.SecretEnv, f.SecretFile); err != nil {
		return "", err
	}
	address, from := f.URL, "--url"
	if address == "" {
		address, from = s.env("ONCEGATE_URL"), "ONCEGATE_URL"
	}
	if secret == "" || address == "" {
		source, err := s.configuredCall(r.source, secret == "")
		if err != nil {
			return "", err
		}
		if address == "" {
			address, from = source.address, "the address of the source"
		}
		if secret == "" {
			if secret, err = credentialSecret(source.Source, f.Credential); err != nil {
				return "", err
			}
		}
	}
	r.url, err = callURL(address, from, r.source)
	return secret, err
}

// givenSecret returns the secret of --secret-env or --secret-file, or "" without these flags.
func (s *shell) givenSecret(variable, file string) (secret string, err error) {
	switch {
	case variable != "":
		if secret = s.env(variable); secret == "" {
			return "", errorf(errorcode.SecretMissing, "--secret-env: environment variable %s is not set or empty", clean(variable))
		}
	case file != "":
		if secret, err = config.ReadSecretFile(file); err != nil {
			return "", errorf(errorcode.SecretMissing, "--secret-file: %s", oneLine(err.Error()))
		}
	}
	return secret, nil
}

// configuredSource is a source of operations and its address. The source of `oncegate dev` is nil.
type configuredSource struct {
	*config.Source
	address string
}

// configuredCall returns a source of the configuration. needed says that its secret is needed, too.
func (s *shell) configuredCall(name string, needed bool) (configuredSource, error) {
	cfg, err := s.load()
	if err != nil {
		state, running := s.readDevState()
		if running && s.configFile == "" && !needed {
			return configuredSource{address: state.Public}, nil
		}
		if _, missing := os.Stat(config.DefaultFile); missing == nil || s.configFile+s.env("ONCEGATE_CONFIG") != "" {
			return configuredSource{}, err
		}
		if needed {
			return configuredSource{}, errorf(errorcode.SecretMissing, "no secret to call with: add --secret-env NAME or --secret-file PATH, or name the server's configuration with --config")
		}
		return configuredSource{}, usagef("no server to call: add --url https://..., set ONCEGATE_URL, or name the server's configuration with --config")
	}
	var known []string
	for _, source := range cfg.Sources {
		switch {
		case !source.Provider.IsOperation() && source.Name == name:
			return configuredSource{}, usagef("source %s takes webhooks of %s, not operations: `oncegate send` sends it one", source.Name, source.Provider.Name())
		case source.Name == name:
			return configuredSource{source, cmp.Or(source.ExternalURL, loopback(cfg.Listen.Public)+"/in/"+source.Name)}, nil
		case source.Provider.IsOperation():
			known = append(known, source.Name)
		}
	}
	if len(known) == 0 {
		return configuredSource{}, errorf(errorcode.UnknownSource, "unknown source %q: the configuration has no source of operations", clean(name))
	}
	return configuredSource{}, errorf(errorcode.UnknownSource, "unknown source %q; %ssources of operations are %s", clean(name), yamltree.DidYouMean(known, name), strings.Join(known, ", "))
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
		return "", errorf(errorcode.SecretMissing, "source %s has no secret to call with: add --secret-env NAME", source.Name)
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
	switch path, isFile := strings.CutPrefix(data, "@"); {
	case data == "-":
		return s.readFile("--data", data)
	case !isFile:
		return []byte(data), nil
	case path == "":
		return nil, usagef("--data @ names no file: write @file, - for stdin, or the text itself")
	default:
		return s.readFile("--data", path)
	}
}

// partName is the form of the name of a key part. The name is also the name of a header.
var partName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,63}$`)

// orderedParts lists the parts that come first in a key, regardless of their order on the command
// line.
var orderedParts = []string{"run", "step", "tick"}

// setKey sets the headers for the key. A session supplies the key but for the step.
func (r *callRequest) setKey(f callFlags, session bool) error {
	parts, err := keyParts(f.KeyFrom)
	switch {
	case err != nil:
		return err
	case session && f.Key != "":
		return usagef("--key does not go with a session, which makes the key: use --key-from step=...")
	case session:
		return r.setStep(parts)
	case strings.ContainsFunc(f.Key, func(c rune) bool { return c <= ' ' || c > '~' }):
		return usagef("--key has characters other than visible ASCII; --key-from escapes them")
	case len(parts) == 0:
		r.key = f.Key // a source with a recipe needs no key; any other source reports that it is missing
	default:
		var values []string
		for _, part := range parts {
			r.header.Set(cmp.Or(map[string]string{"run": "Run-Id"}[part.name], part.name), part.value)
			values = append(values, part.value)
		}
		r.key = providers.KeyFrom(values...)
	}
	if r.key != "" {
		r.header.Set("Idempotency-Key", r.key)
	}
	return nil
}

// setStep sets the headers for the step of a session.
func (r *callRequest) setStep(parts []keyPart) error {
	for _, part := range parts {
		switch part.name {
		case "step":
			r.header.Set("Oncegate-Step", part.value)
		case "tick":
			r.header.Set("Oncegate-Tick", part.value)
		default:
			return usagef("--key-from %s=: a session has the rest of the key; it takes step, and tick if the step happens several times", clean(part.name))
		}
	}
	if r.header.Get("Oncegate-Step") == "" {
		return usagef("--key-from step=... is missing: under a session the step distinguishes the calls of its run")
	}
	return nil
}

// keyPart is a part of a key. Its name is also the name of a header.
type keyPart struct{ name, value string }

// keyParts returns the parts of a key in their order.
func keyParts(pairs []string) (parts []keyPart, err error) {
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || !partName.MatchString(name) {
			return nil, usagef("--key-from %q is not name=value, such as run=42,step=3; a part with a comma is put in double quotes", clean(pair))
		}
		header := http.CanonicalHeaderKey(name)
		switch {
		case slices.ContainsFunc(parts, func(p keyPart) bool { return p.name == name }):
			return nil, usagef("--key-from names %s twice", name)
		case callHeaders[header] != "", slices.Contains(connectionHeaders, header), header == "Content-Type":
			return nil, usagef("--key-from %s=: the call has a header of this name already; choose another name", name)
		case value == "":
			return nil, usagef("--key-from %s= has no value", name)
		case value != strings.TrimSpace(value), !httpguts.ValidHeaderFieldValue(value):
			return nil, usagef("--key-from %s= begins or ends with a space, or has control characters, which no header keeps", name)
		}
		parts = append(parts, keyPart{name, value})
	}
	// The parts without a place in orderedParts come last, as written.
	place := func(p keyPart) int { return slices.Index(orderedParts, p.name) }
	slices.SortStableFunc(parts, func(a, b keyPart) int { return cmp.Compare(uint(place(a)), uint(place(b))) })
	return parts, nil
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

// newRequest returns a request of the call. The method GET requests a result.
func (r *callRequest) newRequest(ctx context.Context, method string, to *url.URL) (*http.Request, error) {
	if method != http.MethodPost {
		request, err := http.NewRequestWithContext(ctx, method, to.String(), http.NoBody)
		if err == nil {
			request.Header.Set("Authorization", r.header.Get("Authorization"))
		}
		return request, err
	}
	request, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(r.body))
	if err == nil {
		request.Header = r.header.Clone()
	}
	return request, err
}
