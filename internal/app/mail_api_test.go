package app_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// What the routes of the guide send is what the providers document as the least request.
func TestMailAPIRecipes(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/guides/mail-providers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(guide), "```yaml\n")
	block, _, _ := strings.Cut(rest, "```")
	cat := catalogtest.Load(t)
	environ := []string{"DATABASE_URL=postgres://a.example/b", "SHOP_SECRET=s"}
	for _, name := range []string{"RESEND_AUTHORIZATION", "SENDGRID_AUTHORIZATION", "POSTMARK_TOKEN", "SES_USER", "SES_PASSWORD"} {
		environ = append(environ, name+"=x")
	}
	cfg, err := config.Load(config.Options{Catalog: cat, File: "oncegate.yml", Content: []byte(block), Environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	// https://resend.com/docs/api-reference/emails/send-email, https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send,
	// https://postmarkapp.com/developer/api/email-api
	want := map[string]string{
		"over-resend":   `{"from":"shop@example.com","to":["ann@example.com"],"subject":"Hi","text":"Hello"}`,
		"over-sendgrid": `{"personalizations":[{"to":[{"email":"ann@example.com"}]}],"from":{"email":"shop@example.com"},"subject":"Hi","content":[{"type":"text/plain","value":"Hello"}]}`,
		"over-postmark": `{"From":"shop@example.com","To":"ann@example.com","Subject":"Hi","TextBody":"Hello"}`,
	}
	in := &expression.Input{Body: []byte(`{"to":"ann@example.com","subject":"Hi","text":"Hello"}`)}
	for _, route := range cfg.Sources[0].Routes {
		if route.Map == nil {
			continue
		}
		body, err := route.Map.JSON(in)
		if err != nil {
			t.Fatalf("%s: %v", route.Name, err)
		}
		var got, wanted any
		if json.Unmarshal(body, &got) != nil || json.Unmarshal([]byte(want[route.Name]), &wanted) != nil || !reflect.DeepEqual(got, wanted) {
			t.Errorf("%s sends %s, want %s", route.Name, body, want[route.Name])
		}
		delete(want, route.Name)
		if recognises := route.Name == "over-resend"; route.Target.Idempotent != recognises || (route.Target.KeyWindow > 0) != recognises {
			t.Errorf("%s: idempotent %t, key_window %s", route.Name, route.Target.Idempotent, route.Target.KeyWindow)
		}
	}
	if len(want) > 0 {
		t.Errorf("no route for %v", want)
	}
}
