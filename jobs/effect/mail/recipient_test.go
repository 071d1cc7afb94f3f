package mail_test

import (
	"testing"

	"github.com/oncegate/oncegate/jobs/effect/effecttest"
	"github.com/oncegate/oncegate/jobs/effect/mail"
)

// One person is one recipient, however they are written; keys are made of this.
func TestRecipientsMean(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"ann@example.com":                  "ann@example.com",
		"  ann@example.com\t":              "ann@example.com",
		"ann@EXAMPLE.com":                  "ann@example.com",
		"Ann@example.com":                  "Ann@example.com", // another mailbox, as far as anybody outside can know
		`"Ann, A." <ann@Example.Com>`:      "ann@example.com",
		"Anne <ann@example.com>":           "ann@example.com",
		"<ann@example.com>":                "ann@example.com",
		`"a@b"@Example.com`:                "a@b@example.com",
		" nobody ":                         "nobody",
		"":                                 "",
		"ann@example.com, bob@Example.com": "ann@example.com, bob@Example.com",
	} {
		if got := mail.Recipient(to); got != want {
			t.Errorf("%q means %q, want %q", to, got, want)
		}
	}
	for to, bad := range map[string]bool{"ann@example.com": false, "nobody": true, "": true, "a@b.example\r\nBcc: c@d.example": true} {
		if err := mail.CheckRecipient(to); (err != nil) != bad {
			t.Errorf("%q: %v", to, err)
		}
	}
	call := effecttest.Call(1)
	call.Event.Body = []byte(`{"id":"7","total":12}`)
	rendered, err := message(t).Render(call, `"Ann, A." <ann@Example.Com>`)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := mail.RecipientOf(rendered); err != nil || mail.Recipient(got) != "ann@example.com" {
		t.Errorf("the message is to %q: %v", got, err)
	}
	if got, err := mail.RecipientOf([]byte("no message")); err == nil {
		t.Errorf("no message is to %q", got)
	}
}
