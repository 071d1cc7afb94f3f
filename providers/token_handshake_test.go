package providers_test

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
)

// asked is the request by which a sender tests an address, with a token.
func asked(token string) *providers.Request {
	query := url.Values{"hub.mode": {"subscribe"}, "hub.challenge": {"1158201444"}, "hub.verify_token": {token}}
	return &providers.Request{Method: http.MethodGet, URL: "https://hooks.example/in/own?" + query.Encode(), Header: http.Header{}, ReceivedAt: noon}
}

// TestTokenHandshakes checks that a handshake with a token is answered only for a live token,
// because an answer confirms the address and completes the client's subscription.
func TestTokenHandshakes(t *testing.T) {
	t.Parallel()
	app := providers.Secret{Name: "app", Value: []byte("the app's secret")}
	token := func(value string, until time.Time) providers.Secret {
		return providers.Secret{Name: "verify_token", Value: []byte(value), NotAfter: until}
	}
	later, before := noon.Add(time.Hour), noon.Add(-time.Second)
	for name, c := range map[string]struct {
		secrets []providers.Secret
		token   string
		answers bool
	}{
		"the token":                             {[]providers.Secret{app, token("tok", time.Time{})}, "tok", true},
		"the token, until later":                {[]providers.Secret{app, token("tok", later)}, "tok", true},
		"the token, until now":                  {[]providers.Secret{app, token("tok", noon)}, "tok", true},
		"an expired token":                      {[]providers.Secret{app, token("tok", before)}, "tok", false},
		"a token that replaced an expired one":  {[]providers.Secret{token("old", before), app, token("new", time.Time{})}, "new", true},
		"the expired one beside its successor":  {[]providers.Secret{token("old", before), app, token("new", time.Time{})}, "old", false},
		"the first of two live ones":            {[]providers.Secret{token("old", later), token("new", time.Time{})}, "old", true},
		"no secret":                             {nil, "tok", false},
		"no secret and an empty token":          {nil, "", false},
		"no token":                              {[]providers.Secret{app}, "tok", false},
		"no token and an empty one asked":       {[]providers.Secret{app}, "", false},
		"an empty token":                        {[]providers.Secret{app, token("", time.Time{})}, "", false},
		"an empty token and another one asked":  {[]providers.Secret{app, token("", time.Time{})}, "tok", false},
		"the secret of deliveries":              {[]providers.Secret{app, token("tok", time.Time{})}, "the app's secret", false},
		"an expired secret of deliveries":       {[]providers.Secret{{Name: "app", Value: app.Value, NotAfter: before}, token("tok", time.Time{})}, "the app's secret", false},
		"another token":                         {[]providers.Secret{app, token("tok", time.Time{})}, "tko", false},
		"the beginning of the token":            {[]providers.Secret{app, token("tok", time.Time{})}, "to", false},
		"more than the token":                   {[]providers.Secret{app, token("tok", time.Time{})}, "tokk", false},
		"the token in another case":             {[]providers.Secret{app, token("tok", time.Time{})}, "TOK", false},
		"the token with a space after it":       {[]providers.Secret{app, token("tok", time.Time{})}, "tok ", false},
		"the ninth token, beyond what is tried": {append(repeated(8, token("no", time.Time{})), token("tok", time.Time{})), "tok", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reply, ok, err := load(t, "meta").Handshake(asked(c.token), c.secrets)
			if !ok {
				t.Fatal("it is not taken for a handshake")
			}
			if c.answers {
				if err != nil || reply.Status != http.StatusOK || string(reply.Body) != "1158201444" {
					t.Errorf("%+v, %v", reply, err)
				}
				return
			}
			refusal, refused := errors.AsType[*providers.Refusal](err)
			if !refused || refusal.Reason != providers.ReasonMismatch || refusal.Reply == nil || refusal.Reply.Status != http.StatusForbidden || len(refusal.Reply.Body) > 0 || len(reply.Body) > 0 {
				t.Errorf("%+v, %v: want the refusal 403", reply, err)
			}
		})
	}
}

func repeated(n int, s providers.Secret) []providers.Secret {
	out := make([]providers.Secret, n)
	for i := range out {
		out[i] = s
	}
	return out
}

// TestTokenHandshakesBySetting checks that without the source's setting for the token no handshake
// is answered.
func TestTokenHandshakesBySetting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settings map[string][]string
		token    string
		answers  bool
	}{
		"the token":                {map[string][]string{"verify_token": {"STRAVA"}}, "STRAVA", true},
		"another":                  {map[string][]string{"verify_token": {"STRAVA"}}, "strava", false},
		"none set":                 {nil, "STRAVA", false},
		"none set and none asked":  {nil, "", false},
		"set, and none asked":      {map[string][]string{"verify_token": {"STRAVA"}}, "", false},
		"the value of a secret":    {map[string][]string{"verify_token": {"STRAVA"}}, "a secret", false},
		"the second of two values": {map[string][]string{"verify_token": {"one", "STRAVA"}}, "STRAVA", true},
	} {
		settings := map[string][]string{"insecure": {"true"}}
		maps.Copy(settings, c.settings)
		p, err := load(t, "strava").Bind(providers.Binding{Settings: settings})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		reply, ok, err := p.Handshake(asked(c.token), []providers.Secret{{Name: "s", Value: []byte("a secret")}})
		if !ok || (err == nil) != c.answers || c.answers != (string(reply.Body) == `{"hub.challenge":"1158201444"}`) {
			t.Errorf("%s: %+v, %t, %v", name, reply, ok, err)
		}
	}
}
