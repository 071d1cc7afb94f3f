package delivery

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncegate/oncegate/providers"
)

// example returns the example of a provider with an event id and a time, before it is signed. The body is empty
// if the catalogue has no example. If the provider sends the id in a header, or none, a JSON body gets it as the member
// oncegate_test: otherwise two tests would have the same body under two ids, as a replay attack has, and raise its alarm,
// or be one event.
func example(p *providers.Provider, id string, made time.Time) (http.Header, []byte) {
	spec := p.Spec()
	header, filled := fill(spec.Example.Headers, spec.Example.Body, id, made)
	body := string(filled)
	if inside, ok := strings.CutSuffix(strings.TrimSpace(body), "}"); ok && strings.HasPrefix(inside, "{") && !strings.Contains(spec.Example.Body, "{{id}}") && (identifiedByHeader(spec.Identity.Candidates) || spec.Identity.Mode == "digest") {
		member, _ := json.Marshal(id)
		body = strings.TrimRight(inside, " \n") + `,"oncegate_test":` + string(member) + "}"
	}
	return header, []byte(body)
}

// fill fills the headers and the body of a delivery. {{id}} is the event id, and {{now}}, {{now_rfc3339}} and
// {{now_utc}}, which has no zone, are the time. {{number}}, {{digits}}, {{hex}}, {{sha}} and {{uuid}} look like other ids
// of a sender. They are made of the event id, so that a repeated delivery is the same.
func fill(headers map[string]string, text, id string, made time.Time) (http.Header, []byte) {
	digest := sha256.Sum256([]byte(id))
	random := hex.EncodeToString(digest[:])
	number := binary.BigEndian.Uint64(digest[:]) % 1_000_000_000
	filler := strings.NewReplacer(
		"{{id}}", id, "{{now}}", strconv.FormatInt(made.Unix(), 10), "{{now_rfc3339}}", made.UTC().Format(time.RFC3339), "{{now_utc}}", made.UTC().Format("2006-01-02T15:04:05"),
		"{{number}}", strconv.FormatUint(number+1_000_000_000, 10), "{{digits}}", strconv.FormatUint(number%900_000+100_000, 10),
		"{{hex}}", random[:32], "{{sha}}", random[:40], "{{uuid}}", uuidOf(random),
	)
	header := http.Header{}
	header.Set("Content-Type", "application/json")
	for name, value := range headers {
		header.Set(name, filler.Replace(value))
	}
	return header, []byte(filler.Replace(text))
}

// uuidOf returns a UUID of version 4 with the digits of a text in hex.
func uuidOf(text string) string {
	return text[:8] + "-" + text[8:12] + "-4" + text[13:16] + "-8" + text[17:20] + "-" + text[20:32]
}

// identifiedByHeader reports whether the event id comes from a header.
func identifiedByHeader(candidates []providers.Field) bool {
	return slices.ContainsFunc(candidates, func(c providers.Field) bool {
		return c.Header != "" || len(c.Join) > 0 && c.Join[0].Header != ""
	})
}

// identify sets the event id in the header that belongs to the other headers of the delivery. A provider may
// have several generations of such headers.
func identify(header http.Header, candidates []providers.Field, id string) {
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
		return uuidOf(text)
	}
	return "msg_" + text[:24]
}
