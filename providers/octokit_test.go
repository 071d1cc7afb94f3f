package providers_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

func load(tb testing.TB, name string) *providers.Provider {
	tb.Helper()
	loaded := catalogtest.Load(tb)
	if loaded[name] == nil {
		tb.Fatalf("no provider %s", name)
	}
	return loaded[name]
}

// Every payload GitHub's own library publishes is accepted when it is signed as
// GitHub does (computed here, not by Sign), as JSON and as a form.
func TestOctokitExamples(t *testing.T) {
	t.Parallel()
	github := load(t, "github")
	secrets := []providers.Secret{{Name: "hook", Value: []byte("It's a Secret to Everybody")}}
	n := 0
	for example, err := range providertest.Octokit(testdata.Files) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		want, err := example.Type()
		if err != nil {
			t.Fatal(err)
		}
		for media, body := range map[string][]byte{
			"application/json":                  example.Body,
			"application/x-www-form-urlencoded": []byte("payload=" + url.QueryEscape(string(example.Body))),
		} {
			mac := hmac.New(sha256.New, secrets[0].Value)
			mac.Write(body)
			id := fmt.Sprintf("72d3162e-cc78-11e3-81ab-%012d", n)
			req := &providers.Request{Method: http.MethodPost, Body: body, ReceivedAt: time.Unix(1_700_000_000, 0), Header: http.Header{}}
			req.Header.Set("Content-Type", media)
			req.Header.Set("X-GitHub-Event", example.Event)
			req.Header.Set("X-GitHub-Delivery", id)
			req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
			d, err := github.Verify(req, secrets)
			if err != nil {
				t.Fatalf("%s: %v", want, err)
			}
			if len(d.Items) != 1 || d.Items[0].Unusable != "" || d.Items[0].EventID != id || d.Items[0].Type != want || !d.IDUnsigned {
				t.Errorf("%s as %s: %+v", want, media, d.Items)
			}
			if d.Items[0].Offset != 0 || d.Items[0].Length != len(body) {
				t.Errorf("%s: the item is not the whole body", want)
			}
		}
		if _, ok := github.Canonical(example.Body); !ok {
			t.Errorf("%s has no canonical form", want)
		}
	}
	if n != 329 {
		t.Errorf("%d examples, want 329", n)
	}
}
