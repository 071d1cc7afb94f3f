package app_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
	"github.com/oncegate/oncegate/jobs/effect/mail"
)

// Of two mails it is shown which members differ, and of texts and attachments nothing but that. Where nothing that people know differs,
// and for what is no mail, there are the digests.
func TestMailsDifferByTheirMembers(t *testing.T) {
	t.Parallel()
	render := func(change func(*mail.MessageConfig)) []byte {
		cfg := mail.MessageConfig{From: "Shop <shop@example.com>", Subject: "Order 7 – paid", Text: "Total: 12 €", HTML: "<p>Total: 12</p>"}
		change(&cfg)
		m, err := mail.NewMessage(cfg)
		if err != nil {
			t.Fatal(err)
		}
		out, err := m.Render(effecttest.Call(1), "ann@example.com")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	attached := func(name, content string) func(*mail.MessageConfig) {
		return func(c *mail.MessageConfig) {
			c.Attachments = func(*effect.Call) (any, error) {
				return []any{map[string]any{"name": name, "type": "text/csv", "content": content}}, nil
			}
		}
	}
	before := render(func(*mail.MessageConfig) {})
	for name, c := range map[string]struct {
		after []byte
		want  string
	}{
		"subject":         {render(func(c *mail.MessageConfig) { c.Subject = "Order 7 – sent" }), "Subject: Order 7 – paid -> Order 7 – sent"},
		"text":            {render(func(c *mail.MessageConfig) { c.Text = "Total: 120 €" }), "text: 13 bytes -> 14 bytes"},
		"html and text":   {render(func(c *mail.MessageConfig) { c.Text, c.HTML = "Nothing", "<p></p>" }), "html: 16 bytes -> 7 bytes; text: 13 bytes -> 7 bytes"},
		"attachment":      {render(attached("a.csv", "MTI=")), "attachment a.csv:  -> 2 bytes"},
		"another header":  {append([]byte("X-Campaign: spring\r\n"), before...), "X-Campaign:  -> spring"},
		"other bytes":     {append(slices.Clip(before), "\r\n"...), "$: sha256:"},
		"something else":  {[]byte("no mail"), "$: sha256:"},
		"nothing at all ": {nil, "$: sha256:"},
	} {
		var got []string
		for _, change := range app.BodyChanges(before, c.after) {
			got = append(got, change.Path+": "+change.Before+" -> "+change.After)
		}
		if all := strings.Join(got, "; "); all != c.want && (c.want != "$: sha256:" || !strings.HasPrefix(all, c.want) || len(got) != 1) {
			t.Errorf("%s: %s, want %s", name, all, c.want)
		}
	}
}
