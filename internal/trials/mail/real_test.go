package mail_test

import (
	"flag"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
	"github.com/oncegate/oncegate/internal/trials/mail"
)

var (
	postfix = flag.Bool("postfix", false, "mail through the distribution's Postfix")
	singles = flag.Int("singles", 300, "single mails")
)

// TestReal needs root and Postfix: ./scripts/mail runs it.
func TestReal(t *testing.T) {
	t.Parallel()
	if !*postfix {
		return // ./scripts/mail was not asked for
	}
	url, schema := inboxtest.EmptySchema(t)
	evidence, err := mail.RunReal(lab.TestContext(t), mail.RealOptions{
		Options: mail.Options{URL: url, Schema: schema, Dir: t.TempDir(), Progress: t.Logf}, Singles: *singles, List: 200,
	})
	if err != nil {
		t.Fatal(err)
	}
	indeterminate := 0
	for _, e := range evidence.Effects {
		if e.State == "indeterminate" {
			indeterminate++
		}
	}
	t.Logf("%d messages in the Maildir, %d effects indeterminate", len(evidence.Delivered), indeterminate)
	for _, line := range rig.List(mail.CheckReal(evidence)) {
		t.Error(line)
	}
}

func TestRealDamageIsNoticed(t *testing.T) {
	t.Parallel()
	right := func() *mail.Evidence {
		v := &mail.Evidence{AtKill: 1, UnderWay: 1}
		for _, name := range []string{"ann", "bob", "eve"} {
			m := mail.Message{ID: "<" + name + "@sink.example>", Recipient: name + "@example.com", From: `"Shop" <shop@sink.example>`, To: "<" + name + "@example.com>", Subject: "News"}
			v.Wanted = append(v.Wanted, mail.Wanted{Recipient: m.Recipient, Subject: m.Subject})
			v.Delivered = append(v.Delivered, mail.Delivered{Message: m, Signature: "v=1; d=sink.example; s=trial", Received: "with ESMTPS"})
			v.Effects = append(v.Effects, mail.Effect{State: "done", Message: m})
		}
		return v
	}
	if found := mail.CheckReal(right()); len(found) > 0 {
		t.Fatalf("nothing is wrong with the undamaged evidence, and it says: %v", rig.List(found))
	}
	for name, exhibit := range map[string]struct {
		damage func(v *mail.Evidence)
		want   rig.Kind
	}{
		"a second message":      {func(v *mail.Evidence) { v.Delivered = append(v.Delivered, v.Delivered[0]) }, mail.Doubled},
		"done and not there":    {func(v *mail.Evidence) { v.Delivered = v.Delivered[1:] }, mail.Lost},
		"no effect":             {func(v *mail.Evidence) { v.Effects = v.Effects[1:] }, mail.Undelivered},
		"dead":                  {func(v *mail.Evidence) { v.Effects[0].State = "dead" }, mail.Undelivered},
		"nobody wanted it":      {func(v *mail.Evidence) { v.Wanted = v.Wanted[1:] }, mail.Unwanted},
		"too many in the dark":  {func(v *mail.Evidence) { v.Effects[0].State, v.Effects[1].State = "indeterminate", "indeterminate" }, mail.Excessive},
		"another sender":        {func(v *mail.Evidence) { v.Delivered[0].From = "eve@sink.example" }, mail.Altered},
		"another To":            {func(v *mail.Evidence) { v.Delivered[0].To = "<eve@example.com>" }, mail.Altered},
		"unsigned":              {func(v *mail.Evidence) { v.Delivered[0].Signature = "" }, mail.Altered},
		"not encrypted":         {func(v *mail.Evidence) { v.Delivered[0].Received = "with ESMTP" }, mail.InTheClear},
		"one identity for two":  {func(v *mail.Evidence) { v.Delivered[0].ID = v.Delivered[1].ID }, mail.Misidentified},
		"another identity":      {func(v *mail.Evidence) { v.Delivered[0].ID = "<x@sink.example>" }, mail.Misidentified},
		"killed before it sent": {func(v *mail.Evidence) { v.AtKill = 0 }, mail.Untried},
	} {
		v := right()
		exhibit.damage(v)
		if found := mail.CheckReal(v); rig.CountKind(found, exhibit.want) == 0 {
			t.Errorf("%s: not noticed as %s: %v", name, exhibit.want, rig.List(found))
		}
	}
}
