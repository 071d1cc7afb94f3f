package providers_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/oncegate/oncegate/providers"
)

// forgedBodies are what a forger would like to have recorded.
var forgedBodies = []string{
	`{"id":"evt_forged","event_id":"evt_forged","type":"forged","event":"forged","payload":{"object":{"id":1}},"event_ts":1777896000000}`,
	`[{"id":"evt_forged","type":"forged"}]`, ` {"id":"evt_forged"}`, `"evt_forged"`, `12345678901234567890`, `true`,
	`id=evt_forged&type=forged`, `<notification><kind>check</kind><timestamp>2026-05-04T12:00:00Z</timestamp></notification>`, `evt_forged`, ``,
}

// forged is a delivery without its signature, and what a signature would cover.
type forged struct {
	req     providers.Request
	spec    *providers.VerifySpec
	stamp   string
	message string
}

// forge builds the deliveries that bring the body: one for each way in which the
// provider verifies, and for forms and queries the ones that these would have.
func (f *forger) forge(body string) []forged {
	specs := []*providers.VerifySpec{&f.provider.Spec().Verify}
	for i := range f.provider.Spec().Modes {
		specs = append(specs, &f.provider.Spec().Modes[i].Verify)
	}
	var out []forged
	for i, v := range specs {
		req := providers.Request{Method: http.MethodPost, URL: f.address, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body), ReceivedAt: noon}
		if strings.Contains(body, "=") && !strings.HasPrefix(body, "<") {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		for _, m := range v.Require {
			req.Header.Set(m.Header, cmpOr(m.Equals, "1"))
		}
		if i > 0 {
			for _, m := range f.provider.Spec().Modes[i-1].When {
				req.Header.Set(m.Header, cmpOr(m.Equals, "1"))
			}
		}
		for name, value := range f.provider.Spec().Example.Headers {
			req.Header.Set(name, value)
		}
		stamp := timeAs(v.Timestamp.Unit)
		for _, name := range v.Timestamp.Header {
			req.Header.Set(name, stamp)
		}
		out = append(out, forged{req, v, stamp, message(&req, v, stamp)})
	}
	return out
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

func timeAs(unit string) string {
	switch unit {
	case "ms":
		return strconv.FormatInt(noon.UnixMilli(), 10)
	case "us":
		return strconv.FormatInt(noon.UnixMicro(), 10)
	case "ns":
		return strconv.FormatInt(noon.UnixNano(), 10)
	case "rfc3339", "datetime":
		return noon.Format("2006-01-02T15:04:05Z")
	}
	return strconv.FormatInt(noon.Unix(), 10)
}

// message is the text that the signature of a delivery covers.
func message(req *providers.Request, v *providers.VerifySpec, stamp string) string {
	var b strings.Builder
	for i := range v.Signed {
		part := &v.Signed[i]
		switch {
		case part.Word == "body", part.Word == "document", part.Word == "form-sorted":
			b.Write(req.Body)
		case part.Word == "body-base64":
			b.WriteString(base64.StdEncoding.EncodeToString(req.Body))
		case part.Word == "body-sha256":
			sum := sha256.Sum256(req.Body)
			b.Write(sum[:])
		case part.Word == "timestamp":
			b.WriteString(stamp)
		case part.Word == "method":
			b.WriteString(req.Method)
		case part.Word == "url":
			b.WriteString(req.URL)
		case part.Word == "path", part.Word == "query":
			if u, err := url.Parse(req.URL); err == nil {
				b.WriteString(map[string]string{"path": u.EscapedPath(), "query": u.RawQuery}[part.Word])
			}
		case part.Literal != "":
			b.WriteString(part.Literal)
		case len(part.Header) > 0:
			if req.Header.Get(part.Header[0]) == "" {
				req.Header.Set(part.Header[0], "evt_forged")
			}
			b.WriteString(req.Header.Get(part.Header[0]))
		case part.JSON != "":
			var document map[string]any
			_ = json.Unmarshal(req.Body, &document)
			text, _ := document[part.JSON].(string)
			b.WriteString(text)
		}
	}
	return b.String()
}

// challenges returns the texts that the forger lets a handshake sign for a delivery: its signed
// form, unchanged and in every encoding that a handshake or a header might remove.
func (d *forged) challenges() []string {
	m, body := d.message, string(d.req.Body)
	out := []string{
		m, body, strings.TrimSpace(m), m + "\n", url.QueryEscape(m), base64.StdEncoding.EncodeToString([]byte(m)), base64.StdEncoding.EncodeToString([]byte(body)),
		base64.StdEncoding.EncodeToString([]byte(body)) + "\n", hex.EncodeToString([]byte(m)), d.stamp + ":" + body, d.stamp + "." + body, "0123456789abcdef0123456789abcdef",
		// The form of a token, for family jwt.
		base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":1777899600,"aud":"`+d.req.URL+`"}`)),
	}
	return out
}

var tokens = regexp.MustCompile(`[A-Za-z0-9+/_=|-]{16,}`)

// proofs are the spellings of everything in the answers that could be a signature.
func proofs(seen []string) []string {
	found := map[string]bool{}
	for _, text := range seen {
		found[text] = true
		var values map[string]any
		_ = json.Unmarshal([]byte(text), &values)
		for _, value := range values {
			if s, ok := value.(string); ok {
				found[s] = true
			}
		}
		for _, token := range tokens.FindAllString(text, -1) {
			for _, part := range append(strings.FieldsFunc(token, func(r rune) bool { return r == '|' }), token, strings.TrimPrefix(token, "sha256="), token[strings.LastIndexByte(strings.TrimRight(token, "="), '=')+1:]) {
				found[part] = true
				for _, sum := range decodings(part) {
					found[hex.EncodeToString(sum)] = true
					found[base64.StdEncoding.EncodeToString(sum)] = true
					found[base64.RawURLEncoding.EncodeToString(sum)] = true
				}
			}
		}
	}
	delete(found, "")
	return slices.Sorted(maps.Keys(found))
}

func decodings(text string) (out [][]byte) {
	for _, decode := range []func(string) ([]byte, error){hex.DecodeString, base64.StdEncoding.DecodeString, base64.RawURLEncoding.DecodeString} {
		if sum, err := decode(text); err == nil && len(sum) >= 16 {
			out = append(out, sum)
		}
	}
	return out
}

// signedWith returns the requests of a forged delivery, with the proof in each place that is read:
// the signature's, a credential's, and those that the schemes read.
func (d *forged) signedWith(challenge, proof string) []*providers.Request {
	var out []*providers.Request
	put := func(change func(r *providers.Request)) {
		r := d.req
		r.Header = d.req.Header.Clone()
		change(&r)
		out = append(out, &r)
	}
	s := &d.spec.Signature
	values := []string{proof, s.Prefix + proof, challenge + "." + proof, "Bearer " + proof, "Bearer " + challenge + "." + proof, "Basic " + proof}
	for i := range s.Schemes {
		item := s.Schemes[i].Label + s.Assign + proof
		values = append(values, item, s.TimestampLabel+s.Assign+d.stamp+s.Separator+item, d.stamp+s.Separator+proof)
	}
	for _, name := range s.Headers {
		for _, value := range values {
			put(func(r *providers.Request) { r.Header.Set(strings.Replace(name, "-N", "-1", 1), value) })
		}
	}
	for _, c := range d.spec.Credential {
		for _, value := range values {
			put(func(r *providers.Request) { r.Header.Set(cmpOr(c.Header, "Authorization"), value) })
		}
		if c.Scheme == "query" {
			put(func(r *providers.Request) { r.URL += "?" + url.Values{c.Name: {proof}}.Encode() })
		}
	}
	switch s.From {
	case "query":
		put(func(r *providers.Request) { r.URL += "?" + url.Values{s.Path: {s.Prefix + proof}}.Encode() })
	case "form":
		put(func(r *providers.Request) {
			r.Body = append(r.Body, "&"+url.Values{s.Path: {s.Prefix + proof}}.Encode()...)
		})
	}
	put(func(r *providers.Request) { r.URL += "?" + url.Values{"key": {proof}}.Encode() })                                // Event Grid
	for _, payload := range []string{challenge, challenge + "\n", base64.StdEncoding.EncodeToString(d.req.Body) + "\n"} { // Braintree
		put(func(r *providers.Request) {
			r.Body = []byte(url.Values{"bt_signature": {proof}, "bt_payload": {payload}}.Encode())
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		})
	}
	return out
}
