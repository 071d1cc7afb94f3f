package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"

	"github.com/oncegate/oncegate/internal/control"
)

// Client carries out operations at a server. Server and Token are required.
type Client struct {
	// Server is the address of the private listener, such as http://127.0.0.1:8081.
	Server string

	// Token is sent with every request.
	Token string

	// HTTP makes the requests; its Timeout bounds each. It is required.
	HTTP *http.Client
}

// maxAnswer is the largest answer that a client reads, in bytes.
const maxAnswer = 256 << 20

// Call carries out an operation at the server. What the server refuses is a [control.Problem].
func (c *Client) Call(ctx context.Context, operation control.Definition, request, response any) error {
	d := operation.Describe()
	body := hasBody(d.Method)
	path, query, err := encodeAddress(reflect.ValueOf(request), d.Path, body)
	if err != nil {
		return &control.Problem{Code: control.CodeInvalid, Detail: err.Error()}
	}
	address := strings.TrimSuffix(c.Server, "/") + Prefix + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	var content io.Reader
	if body {
		text, err := json.Marshal(request)
		if err != nil {
			return fmt.Errorf("writing the request: %w", err)
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, d.Method, address, content)
	if err != nil {
		return fmt.Errorf("the address of the server: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+c.Token)
	r.Header.Set("Accept", "application/json")
	writeIfMatch(r.Header, request)
	if body {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.HTTP.Do(r)
	if err != nil {
		return fmt.Errorf("asking the server: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("reading the server's answer: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		var p ProblemDocument
		if json.Unmarshal(text, &p) != nil || p.Code == "" {
			return fmt.Errorf("the server answered %s, and not as Oncegate's API does: is %s the address of the private listener?", answer.Status, c.Server)
		}
		return &control.Problem{Code: p.Code, Detail: p.Detail}
	}
	if content, ok := response.(*control.Content); ok {
		_, parameters, err := mime.ParseMediaType(answer.Header.Get("Content-Disposition"))
		if err != nil {
			return fmt.Errorf("reading the server's answer: %w", err)
		}
		*content = control.Content{Name: parameters["filename"], Bytes: text}
		return nil
	}
	if err := json.Unmarshal(text, response); err != nil {
		return fmt.Errorf("reading the server's answer: %w", err)
	}
	return nil
}
