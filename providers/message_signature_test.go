package providers_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
)

const (
	messageURL  = "https://hooks.example/in/own"
	messageBody = `{"id":"evt_1"}`
	messageKey  = "a key of the message signatures"
)

// messageRequest is a request with a signature by RFC 9421, section 2.5, made here and
// not by the product: each covered component on a line, then the parameters.
func messageRequest(t *testing.T, covered []string, parameters string) *providers.Request {
	t.Helper()
	digest := sha256.Sum256([]byte(messageBody))
	values := map[string]string{
		"content-digest": "sha-256=:" + base64.StdEncoding.EncodeToString(digest[:]) + ":",
		"@method":        http.MethodPost, "@authority": "hooks.example", "@path": "/in/own", "content-type": "application/json",
	}
	var base strings.Builder
	quoted := make([]string, len(covered))
	for i, identifier := range covered {
		name, parameter, _ := strings.Cut(identifier, ";")
		value, ok := values[name]
		if !ok {
			t.Fatalf("the test has no component %s", name)
		}
		quoted[i] = strconv.Quote(name)
		if parameter == "bs" {
			quoted[i] += ";bs"
			value = ":" + base64.StdEncoding.EncodeToString([]byte(value)) + ":"
		}
		base.WriteString(quoted[i] + ": " + value + "\n")
	}
	input := "(" + strings.Join(quoted, " ") + ")" + parameters
	base.WriteString(`"@signature-params": ` + input)
	mac := hmac.New(sha256.New, []byte(messageKey))
	mac.Write([]byte(base.String()))
	req := &providers.Request{Method: http.MethodPost, URL: messageURL, Header: http.Header{}, Body: []byte(messageBody), ReceivedAt: noon}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Content-Digest", values["content-digest"])
	req.Header.Set("Signature-Input", "sig="+input)
	req.Header.Set("Signature", "sig=:"+base64.StdEncoding.EncodeToString(mac.Sum(nil))+":")
	return req
}

// A signature that is valid in itself is still refused if it covers less than the source
// asks for, if it is over, or if it was not made with the key and algorithm that it names.
func TestMessageSignatures(t *testing.T) {
	t.Parallel()
	at := func(after time.Duration) string { return strconv.FormatInt(noon.Add(after).Unix(), 10) }
	whole := []string{"content-digest", "@method", "@authority"}
	made := ";created=" + at(-time.Minute)
	ours := `;keyid="ours"`
	for name, c := range map[string]struct {
		covered    []string
		parameters string
		components []string // of the source; nil is the default
		want       providers.Reason
		detail     string
	}{
		"whole":           {covered: whole, parameters: made + ours},
		"more than asked": {covered: append([]string{"content-type", "@path"}, whole...), parameters: made + ours},
		"another order":   {covered: []string{"@authority", "content-digest", "@method"}, parameters: made + ours},

		"no content-digest":           {covered: []string{"@method", "@authority"}, parameters: made + ours, want: providers.ReasonMismatch, detail: "does not cover content-digest"},
		"no @method":                  {covered: []string{"content-digest", "@authority"}, parameters: made + ours, want: providers.ReasonMismatch, detail: "does not cover @method"},
		"no @authority":               {covered: []string{"content-digest", "@method"}, parameters: made + ours, want: providers.ReasonMismatch, detail: "does not cover @authority"},
		"nothing":                     {parameters: made + ours, want: providers.ReasonMismatch, detail: "does not cover"},
		"content-digest as bytes":     {covered: []string{"content-digest;bs", "@method", "@authority"}, parameters: made + ours, want: providers.ReasonMismatch, detail: "does not cover content-digest"},
		"less than the source's own":  {covered: whole, parameters: made + ours, components: []string{"content-digest", "@path"}, want: providers.ReasonMismatch, detail: "does not cover @path"},
		"as much as the source's own": {covered: []string{"content-digest", "@path"}, parameters: made + ours, components: []string{"content-digest", "@path"}},
		"none asks for nothing":       {covered: []string{"@method"}, parameters: made + ours, components: []string{"none"}},
		"none beside another asks":    {covered: []string{"@method"}, parameters: made + ours, components: []string{"none", "content-digest"}, want: providers.ReasonMismatch, detail: "does not cover content-digest"},

		"expires later":                      {covered: whole, parameters: made + ";expires=" + at(time.Second) + ours},
		"expires now":                        {covered: whole, parameters: made + ";expires=" + at(0) + ours},
		"expired a second ago":               {covered: whole, parameters: made + ";expires=" + at(-time.Second) + ours, want: providers.ReasonStale, detail: "expired"},
		"expired, the parameter comes first": {covered: whole, parameters: ";expires=" + at(-time.Second) + made + ours, want: providers.ReasonStale, detail: "expired"},

		"no created":         {covered: whole, parameters: ours, want: providers.ReasonMalformed, detail: "no time of creation"},
		"created long ago":   {covered: whole, parameters: ";created=" + at(-301*time.Second) + ours, want: providers.ReasonStale},
		"created in advance": {covered: whole, parameters: ";created=" + at(301*time.Second) + ours, want: providers.ReasonEarly},

		"another keyid":            {covered: whole, parameters: made + `;keyid="theirs"`, want: providers.ReasonMismatch, detail: "no live secret matches signature sig"},
		"keyid in another case":    {covered: whole, parameters: made + `;keyid="Ours"`, want: providers.ReasonMismatch},
		"the beginning of a keyid": {covered: whole, parameters: made + `;keyid="our"`, want: providers.ReasonMismatch},
		"no keyid":                 {covered: whole, parameters: made, want: providers.ReasonMismatch, detail: "no live secret matches signature sig"},

		"alg as the key's":                     {covered: whole, parameters: made + ours + `;alg="hmac-sha256"`},
		"another alg":                          {covered: whole, parameters: made + ours + `;alg="rsa-v1_5-sha256"`, want: providers.ReasonMismatch, detail: "no live secret matches signature sig"},
		"alg in another case":                  {covered: whole, parameters: made + ours + `;alg="HMAC-SHA256"`, want: providers.ReasonMismatch},
		"alg of a key that the source has too": {covered: whole, parameters: made + ours + `;alg="ed25519"`, want: providers.ReasonMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := map[string][]string{}
			if c.components != nil {
				settings["components"] = c.components
			}
			p, err := load(t, "rfc9421").Bind(providers.Binding{Settings: settings})
			if err != nil {
				t.Fatal(err)
			}
			secrets := []providers.Secret{
				{Name: "public", Value: []byte(vector(t, "rfc9421", "B.2.6-ed25519").Secret)},
				{Name: "main", Value: []byte("ours:hmac-sha256=" + base64.StdEncoding.EncodeToString([]byte(messageKey)))},
			}
			d, err := p.Verify(messageRequest(t, c.covered, c.parameters), secrets)
			if got := reasonOf(t, err); got != c.want || err != nil && !strings.Contains(err.Error(), c.detail) {
				t.Fatalf("%q (%v), want %q %q", got, err, c.want, c.detail)
			}
			if err == nil && (d.Secret != "main" || !d.SignedAt.Equal(noon.Add(-time.Minute))) {
				t.Errorf("verified by %s, signed at %s", d.Secret, d.SignedAt)
			}
		})
	}
}

// TestMessageSignaturesOfAnother checks that of several signatures, one by a configured key over
// the required components is enough, and that two partial signatures are never combined.
func TestMessageSignaturesOfAnother(t *testing.T) {
	t.Parallel()
	p, err := load(t, "rfc9421").Bind(providers.Binding{Settings: map[string][]string{}})
	if err != nil {
		t.Fatal(err)
	}
	secrets := []providers.Secret{{Name: "main", Value: []byte("ours:hmac-sha256=" + base64.StdEncoding.EncodeToString([]byte(messageKey)))}}
	made := ";created=" + strconv.FormatInt(noon.Unix(), 10) + `;keyid="ours"`
	good := messageRequest(t, []string{"content-digest", "@method", "@authority"}, made)
	short := messageRequest(t, []string{"@method"}, made)
	input, sum := strings.TrimPrefix(good.Header.Get("Signature-Input"), "sig="), strings.TrimPrefix(good.Header.Get("Signature"), "sig=")
	less, lessSum := strings.TrimPrefix(short.Header.Get("Signature-Input"), "sig="), strings.TrimPrefix(short.Header.Get("Signature"), "sig=")
	for name, c := range map[string]struct {
		input, signature string
		want             providers.Reason
	}{
		"the good one last":             {"a=" + less + ", b=" + input, "a=" + lessSum + ", b=" + sum, ""},
		"the good one first":            {"a=" + input + ", b=" + less, "a=" + sum + ", b=" + lessSum, ""},
		"the short one alone":           {"a=" + less, "a=" + lessSum, providers.ReasonMismatch},
		"the sum under the other label": {"a=" + input + ", b=" + less, "a=" + lessSum + ", b=" + sum, providers.ReasonMismatch},
		"no sum for the good one":       {"a=" + input + ", b=" + less, "b=" + lessSum, providers.ReasonMismatch},
	} {
		req := messageRequest(t, []string{"content-digest", "@method", "@authority"}, made)
		req.Header.Set("Signature-Input", c.input)
		req.Header.Set("Signature", c.signature)
		_, err := p.Verify(req, secrets)
		if got := reasonOf(t, err); got != c.want {
			t.Errorf("%s: %q (%v), want %q", name, got, err, c.want)
		}
	}
}
