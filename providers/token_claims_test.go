package providers_test

import (
	"crypto/sha256"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
)

func digestOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// A token that is authentic is still refused if it is meant for another receiver, or is
// not valid at this moment (RFC 7519, 4.1.3 to 4.1.5).
func TestTokenClaims(t *testing.T) {
	t.Parallel()
	const ours = "https://hooks.example/in/own"
	now := noon.Unix()
	base := map[string]any{"aud": ours, "exp": now + 600}
	for name, c := range map[string]struct {
		change  map[string]any // nil takes a claim away
		options string         // in place of the leeway of a minute
		want    providers.Reason
		detail  string
	}{
		"ours":               {},
		"a list with ours":   {change: map[string]any{"aud": []string{"https://other.example", ours}}},
		"another receiver":   {change: map[string]any{"aud": "https://other.example"}, want: providers.ReasonMismatch, detail: "another audience"},
		"a list of others":   {change: map[string]any{"aud": []string{"https://other.example", "x"}}, want: providers.ReasonMismatch, detail: "another audience"},
		"an empty list":      {change: map[string]any{"aud": []string{}}, want: providers.ReasonMismatch, detail: "another audience"},
		"an empty audience":  {change: map[string]any{"aud": ""}, want: providers.ReasonMismatch, detail: "another audience"},
		"the beginning":      {change: map[string]any{"aud": "https://hooks.example/in"}, want: providers.ReasonMismatch, detail: "another audience"},
		"ours and more":      {change: map[string]any{"aud": ours + "/more"}, want: providers.ReasonMismatch, detail: "another audience"},
		"in another case":    {change: map[string]any{"aud": strings.ToUpper(ours)}, want: providers.ReasonMismatch, detail: "another audience"},
		"no audience":        {change: map[string]any{"aud": nil}, want: providers.ReasonMismatch, detail: "no claim aud"},
		"a number":           {change: map[string]any{"aud": 1}, want: providers.ReasonMismatch, detail: "another audience"},
		"an object":          {change: map[string]any{"aud": map[string]string{"aud": ours}}, want: providers.ReasonMismatch, detail: "another audience"},
		"a list of a number": {change: map[string]any{"aud": []any{ours, 1}}, want: providers.ReasonMismatch, detail: "another audience"},

		"valid since now":             {change: map[string]any{"nbf": now}},
		"valid in a minute":           {change: map[string]any{"nbf": now + 60}},
		"valid in more":               {change: map[string]any{"nbf": now + 61}, want: providers.ReasonEarly, detail: "not valid yet"},
		"valid in an hour":            {change: map[string]any{"nbf": now + 3600}, want: providers.ReasonEarly, detail: "not valid yet"},
		"valid since an hour":         {change: map[string]any{"nbf": now - 3600}},
		"no leeway: valid in a blink": {change: map[string]any{"nbf": now + 1}, options: `leeway: ["0"]`, want: providers.ReasonEarly, detail: "not valid yet"},
		"no leeway: valid now":        {change: map[string]any{"nbf": now}, options: `leeway: ["0"]`},

		"over a minute ago":         {change: map[string]any{"exp": now - 60}},
		"over before":               {change: map[string]any{"exp": now - 61}, want: providers.ReasonStale, detail: "expired"},
		"no leeway: over":           {change: map[string]any{"exp": now - 1}, options: `leeway: ["0"]`, want: providers.ReasonStale, detail: "expired"},
		"no leeway: over now":       {change: map[string]any{"exp": now}, options: `leeway: ["0"]`},
		"without an end":            {change: map[string]any{"exp": nil}, want: providers.ReasonMismatch, detail: "no claim exp"},
		"an end that is none":       {change: map[string]any{"exp": -1}, want: providers.ReasonMalformed, detail: "exp is no time"},
		"an end beyond all":         {change: map[string]any{"exp": 1e12}, want: providers.ReasonMalformed, detail: "exp is no time"},
		"an audience and not asked": {options: "require: [exp]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := "require: [exp, aud]"
			if c.options != "" {
				options = c.options
			}
			p, err := custom(t, `
extends: monday
verify:
  options: { algorithms: [HS256], `+options+` }
`).Bind(providers.Binding{Settings: map[string][]string{"audience": {ours}}})
			if err != nil {
				t.Fatal(err)
			}
			claims := maps.Clone(base)
			for claim, value := range c.change {
				if claims[claim] = value; value == nil {
					delete(claims, claim)
				}
			}
			req := &providers.Request{Method: http.MethodPost, Header: http.Header{}, Body: []byte(`{"event":{}}`), ReceivedAt: noon}
			req.Header.Set("Authorization", tokenWith(t, "HS256", "the signing secret", claims))
			_, err = p.Verify(req, []providers.Secret{{Name: "s", Value: []byte("the signing secret")}})
			if got := reasonOf(t, err); got != c.want || err != nil && !strings.Contains(err.Error(), c.detail) {
				t.Errorf("%q (%v), want %q %q", got, err, c.want, c.detail)
			}
		})
	}
}
