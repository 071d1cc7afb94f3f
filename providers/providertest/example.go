package providertest

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/oncegate/oncegate/providers"
)

// Example returns the catalogue's example of a delivery with the given event id, not yet signed. ok
// is false if the provider has no example.
func Example(p *providers.Provider, eventID string, at time.Time) (req *providers.Request, ok bool) {
	example := &p.Spec().Example
	if example.Body == "" {
		return nil, false
	}
	fill := strings.NewReplacer("{{id}}", eventID, "{{now}}", strconv.FormatInt(at.Unix(), 10),
		"{{now_rfc3339}}", at.UTC().Format(time.RFC3339))
	req = &providers.Request{Method: http.MethodPost, Header: http.Header{}, ReceivedAt: at}
	for name, value := range example.Headers {
		req.Header.Set(name, fill.Replace(value))
	}
	req.Body = []byte(fill.Replace(example.Body))
	return req, true
}
