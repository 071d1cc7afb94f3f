package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/providers"
)

// maxRequestFile is the maximum size of a captured request. It is larger than the largest body that
// a source can accept.
const maxRequestFile = 128 << 20

// readRequest reads a captured request: raw HTTP, or a JSON object with method, url, headers and
// body. The bytes of the body are unchanged.
func (s *shell) readRequest(path string) (*providers.Request, error) {
	content, err := s.readFile("--request", path)
	if err != nil {
		return nil, err
	}
	var req *providers.Request
	if trimmed := bytes.TrimLeft(content, " \t\r\n\ufeff"); len(trimmed) > 0 && trimmed[0] == '{' {
		req, err = jsonRequest(trimmed)
	} else {
		req, err = rawRequest(content)
	}
	if err != nil {
		return nil, errorf(errorcode.File, "--request %s: %v", clean(path), err)
	}
	return req, nil
}

// readFile reads a file named on the command line. The name - means stdin.
func (s *shell) readFile(flag, path string) ([]byte, error) {
	in := s.in
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, errorf(errorcode.File, "%s: %v", flag, err)
		}
		defer file.Close()
		in = file
	}
	content, err := io.ReadAll(io.LimitReader(in, maxRequestFile+1))
	switch {
	case err != nil:
		return nil, errorf(errorcode.File, "%s: %v", flag, err)
	case len(content) > maxRequestFile:
		return nil, errorf(errorcode.File, "%s %s: larger than %d MiB", flag, clean(path), maxRequestFile>>20)
	}
	return content, nil
}

// capturedRequest is the JSON form of a request.
type capturedRequest struct {
	Method     string            `json:"method"`
	URL        string            `json:"url"`
	Headers    map[string]values `json:"headers"`
	Body       *string           `json:"body,omitempty"`
	BodyBase64 *string           `json:"body_base64,omitempty"`
	ReceivedAt moment            `json:"received_at,omitzero"`
}

// values contains the values of a header: in JSON one string, or a list.
type values []string

// UnmarshalJSON accepts both forms.
func (v *values) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*v = values{one}
		return nil
	}
	var many []string
	if err := json.Unmarshal(b, &many); err != nil {
		return errors.New("a header is a text or a list of texts")
	}
	*v = many
	return nil
}

// moment is a time, in JSON as Unix seconds or RFC 3339.
type moment time.Time

// UnmarshalJSON accepts both forms.
func (m *moment) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) != nil {
		text = string(b)
	}
	at, err := parseMoment(text)
	*m = moment(at)
	return err
}

// MarshalJSON writes RFC 3339.
func (m moment) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Time(m).UTC().Format(time.RFC3339Nano))
}

// IsZero reports whether the time is unknown. An unknown time is left out.
func (m moment) IsZero() bool { return time.Time(m).IsZero() }

func parseMoment(text string) (time.Time, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Unix(n, 0).UTC(), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither Unix seconds nor an instant such as 2026-11-20T12:00:00Z", clean(text))
	}
	return at.UTC(), nil
}

func jsonRequest(content []byte) (*providers.Request, error) {
	var in capturedRequest
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&in); err != nil {
		if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && kind.Field == "body" {
			return nil, errors.New("body must be a string with the exact bytes as they came (a JSON object has lost them), or use body_base64")
		}
		return nil, fmt.Errorf("reading the JSON object with method, url, headers, body: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	req := &providers.Request{Method: in.Method, URL: in.URL, Header: http.Header{}, ReceivedAt: time.Time(in.ReceivedAt)}
	if req.Method == "" {
		req.Method = http.MethodPost
	}
	switch {
	case in.Body != nil && in.BodyBase64 != nil:
		return nil, errors.New("body and body_base64 exclude each other")
	case in.Body != nil:
		req.Body = []byte(*in.Body)
	case in.BodyBase64 != nil:
		body, err := base64.StdEncoding.DecodeString(*in.BodyBase64)
		if err != nil {
			return nil, errors.New("body_base64 is not base64")
		}
		req.Body = body
	}
	for name, values := range in.Headers {
		for _, value := range values {
			req.Header.Add(name, value)
		}
	}
	return req, nil
}

// rawRequest parses an HTTP request in the form that is sent over the network. Lines may also end
// in a bare LF. The body follows the first empty line.
func rawRequest(content []byte) (*providers.Request, error) {
	content = pseudoHeaders(content)
	line, rest := cutLine(content)
	words := strings.Fields(line)
	if len(words) < 2 || len(words) > 3 || strings.ToUpper(words[0]) != words[0] || len(words) == 3 && !strings.HasPrefix(words[2], "HTTP/") {
		return nil, errors.New("neither a JSON object nor raw HTTP: the first line must be like POST /in/stripe HTTP/1.1")
	}
	req := &providers.Request{Method: words[0], Header: http.Header{}}
	for n := 2; ; n++ {
		if len(rest) == 0 {
			break
		}
		line, rest = cutLine(rest)
		if line == "" {
			break
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			return nil, fmt.Errorf("line %d is not a header such as Content-Type: application/json; an empty line ends the headers", n)
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		req.Header[name] = append(req.Header[name], strings.Trim(value, " \t"))
	}
	req.Body = rest
	if slices.Contains(req.Header["Transfer-Encoding"], "chunked") {
		if body, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(rest))); err == nil {
			req.Body = body
		}
	} else if n, err := strconv.Atoi(req.Header.Get("Content-Length")); err == nil && n >= 0 && n < len(rest) && strings.Trim(string(rest[n:]), "\r\n") == "" {
		// A line break at the end of the file was added by an editor, not by the sender.
		req.Body = rest[:n]
	}
	req.URL = words[1]
	if strings.HasPrefix(words[1], "/") {
		host := req.Header.Get("Host")
		if host == "" {
			host = "localhost"
		}
		scheme := req.Header.Get("X-Forwarded-Proto")
		if scheme != "http" {
			scheme = "https"
		}
		req.URL = scheme + "://" + host + words[1]
	}
	return req, nil
}

// pseudoHeaders converts the pseudo-headers of HTTP/2 (:method, :path, :authority) in the first
// lines of a request into a request line.
func pseudoHeaders(content []byte) []byte {
	values := map[string]string{}
	rest := content
	for {
		line, after := cutLine(rest)
		name, value, ok := strings.Cut(strings.TrimPrefix(line, ":"), ":")
		if !strings.HasPrefix(line, ":") || !ok {
			break
		}
		values[name], rest = strings.TrimSpace(value), after
	}
	if values["method"] == "" || values["path"] == "" {
		return content
	}
	host := values["authority"]
	if host != "" {
		host = "Host: " + host + "\n"
	}
	return append([]byte(values["method"]+" "+values["path"]+" HTTP/2\n"+host), rest...)
}

func cutLine(b []byte) (string, []byte) {
	line, rest, _ := bytes.Cut(b, []byte("\n"))
	return strings.TrimSuffix(string(line), "\r"), rest
}

// newCaptured returns the JSON form of a request.
func newCaptured(req *providers.Request) capturedRequest {
	out := capturedRequest{Method: req.Method, URL: req.URL, Headers: map[string]values{}, ReceivedAt: moment(req.ReceivedAt)}
	for name, all := range req.Header {
		out.Headers[name] = all
	}
	if text := string(req.Body); strings.ToValidUTF8(text, "") == text {
		out.Body = &text
		return out
	}
	encoded := base64.StdEncoding.EncodeToString(req.Body)
	out.BodyBase64 = &encoded
	return out
}

// MarshalJSON writes a single value as a string.
func (v values) MarshalJSON() ([]byte, error) {
	if len(v) == 1 {
		return json.Marshal(v[0])
	}
	return json.Marshal([]string(v))
}

// rawHTTP returns a request in the form that is sent over the network.
func rawHTTP(req *providers.Request) []byte {
	target, host := requestTarget(req.URL)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", req.Method, target)
	if req.Header.Get("Host") == "" && host != "" {
		fmt.Fprintf(&b, "Host: %s\r\n", host)
	}
	for _, pair := range sortedHeaders(req.Header) {
		if pair.name != "Content-Length" {
			fmt.Fprintf(&b, "%s: %s\r\n", pair.name, pair.value)
		}
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n", len(req.Body))
	b.Write(req.Body)
	return b.Bytes()
}

func requestTarget(address string) (target, host string) {
	_, rest, ok := strings.Cut(address, "://")
	if !ok {
		return address, ""
	}
	host, path, _ := strings.Cut(rest, "/")
	return "/" + path, host
}

// curlCommand returns a curl command for a POSIX shell that sends the request.
func curlCommand(req *providers.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "curl -X %s %s", req.Method, quoteShell(req.URL))
	for _, pair := range sortedHeaders(req.Header) {
		fmt.Fprintf(&b, " \\\n  -H %s", quoteShell(pair.name+": "+pair.value))
	}
	if len(req.Body) > 0 {
		fmt.Fprintf(&b, " \\\n  --data-binary %s", quoteShell(string(req.Body)))
	}
	return b.String() + "\n"
}

func quoteShell(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func sortedHeaders(h http.Header) []pair {
	var out []pair
	for name, all := range h {
		for _, value := range all {
			out = append(out, pair{name, value})
		}
	}
	slices.SortStableFunc(out, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	return out
}
