package control

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncegate/oncegate/providers"
)

// ExampleDelivery returns the example of a provider with an event id and a time, before it is signed. The body is empty
// if the catalogue has no example. If the provider sends the id in a header, a JSON body gets it as the member
// oncegate_test: otherwise two tests would have the same body under two ids, as a replay attack has, and raise its alarm.
func ExampleDelivery(p *providers.Provider, id string, made time.Time) (http.Header, []byte) {
	spec := p.Spec()
	fill := strings.NewReplacer("{{id}}", id, "{{now}}", strconv.FormatInt(made.Unix(), 10), "{{now_rfc3339}}", made.UTC().Format(time.RFC3339))
	header := http.Header{}
	header.Set("Content-Type", "application/json")
	for name, value := range spec.Example.Headers {
		header.Set(name, fill.Replace(value))
	}
	body := fill.Replace(spec.Example.Body)
	if inside, ok := strings.CutSuffix(strings.TrimSpace(body), "}"); ok && strings.HasPrefix(inside, "{") && !strings.Contains(spec.Example.Body, "{{id}}") && identifiedByHeader(spec.Identity.Candidates) {
		member, _ := json.Marshal(id)
		body = strings.TrimRight(inside, " \n") + `,"oncegate_test":` + string(member) + "}"
	}
	return header, []byte(body)
}

// identifiedByHeader reports whether the event id comes from a header.
func identifiedByHeader(candidates []providers.Field) bool {
	return slices.ContainsFunc(candidates, func(c providers.Field) bool {
		return c.Header != "" || len(c.Join) > 0 && c.Join[0].Header != ""
	})
}

// IdentifyDelivery sets the event id in the header that belongs to the other headers of the delivery. A provider may
// have several generations of such headers.
func IdentifyDelivery(header http.Header, candidates []providers.Field, id string) {
	for _, c := range candidates {
		if len(c.Join) < 2 || c.Join[0].Header == "" {
			continue
		}
		for _, part := range c.Join[1:] {
			if part.Header != "" && header.Get(part.Header) != "" {
				header.Set(c.Join[0].Header, id)
				return
			}
		}
	}
}

// FreshEventID returns a random id that looks like the provider's own ids.
func FreshEventID(provider string) string {
	var raw [16]byte
	_, _ = rand.Read(raw[:])
	text := hex.EncodeToString(raw[:])
	switch provider {
	case "stripe":
		return "evt_1" + text[:23]
	case "slack":
		return "Ev" + strings.ToUpper(text[:9])
	case "github", "shopify":
		return text[:8] + "-" + text[8:12] + "-4" + text[13:16] + "-8" + text[17:20] + "-" + text[20:]
	}
	return "msg_" + text[:24]
}
