package mail_test

import (
	"slices"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
	"github.com/oncegate/oncegate/internal/trials/mail"
)

func TestHostile(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.EmptySchema(t)
	cases, err := mail.RunHostile(lab.TestContext(t), mail.Options{URL: url, Schema: schema, Dir: t.TempDir(), Progress: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]int{}
	conversations := 0
	for _, c := range cases {
		states[c.State]++
		conversations += len(c.Conversations)
	}
	t.Logf("%d hostile servers, %d conversations: %v", len(cases), conversations, states)
	for _, line := range rig.List(mail.CheckHostile(cases)) {
		t.Error(line)
	}
}

// A checker that has never been seen to fail proves nothing. Each exhibit is what a wrong sender would leave, and is
// noticed as what it is.
func TestHostileDamageIsNoticed(t *testing.T) {
	t.Parallel()
	right := func() []mail.Case {
		var cases []mail.Case
		for _, plan := range mail.Plans() {
			cases = append(cases, mail.Case{Plan: plan, State: "done", ID: "<1@sink.example>", Conversations: []mail.Conversation{taken(plan)}})
		}
		return cases
	}
	if found := mail.CheckHostile(right()); len(found) > 0 {
		t.Fatalf("nothing is wrong with the undamaged evidence, and it says: %v", rig.List(found))
	}
	i := slices.IndexFunc(mail.Plans(), func(p mail.Plan) bool { return p.Encrypted })
	for name, exhibit := range map[string]struct {
		damage func(c *mail.Case)
		want   rig.Kind
	}{
		"two messages": {func(c *mail.Case) { c.Conversations = append(c.Conversations, c.Conversations[0]) }, mail.Doubled},
		"one taken, one that may have been": {func(c *mail.Case) {
			c.Conversations = append(c.Conversations, c.Conversations[0])
			c.Conversations[0].Answered, c.Conversations[0].Taken = false, false
		}, mail.Doubled},
		"done after silence": {func(c *mail.Case) { c.Conversations[0].Answered, c.Conversations[0].Taken = false, false }, mail.Pretended},
		"done without 250":   {func(c *mail.Case) { c.Conversations[0].Taken = false }, mail.Unproven},
		"done unsent":        {func(c *mail.Case) { c.Conversations[0] = mail.Conversation{Secret: true} }, mail.Unproven},
		"indeterminate before the dot": {func(c *mail.Case) {
			c.State, c.Conversations[0] = "indeterminate", mail.Conversation{Secret: true}
		}, mail.Undecided},
		"indeterminate after 250":       {func(c *mail.Case) { c.State = "indeterminate" }, mail.Undecided},
		"dead without 5yz":              {func(c *mail.Case) { c.State, c.Conversations[0] = "dead", mail.Conversation{} }, mail.Buried},
		"done after 5yz":                {func(c *mail.Case) { c.Conversations[0].Refused = true }, mail.Insisted},
		"still to do":                   {func(c *mail.Case) { c.State, c.Conversations[0] = "retry", mail.Conversation{} }, mail.Undelivered},
		"a sender in the clear":         {func(c *mail.Case) { c.Conversations[0].Clear = []string{"EHLO", "MAIL"} }, mail.InTheClear},
		"a password in the clear":       {func(c *mail.Case) { c.Conversations[0].Clear = []string{"EHLO", "AUTH"} }, mail.InTheClear},
		"another subject":               {func(c *mail.Case) { c.Conversations[0].Message.Subject = "Old news" }, mail.Altered},
		"another recipient":             {func(c *mail.Case) { c.Conversations[0].Message.Recipient = "eve@example.com" }, mail.Altered},
		"another identity":              {func(c *mail.Case) { c.ID = "<2@sink.example>" }, mail.Misidentified},
		"nobody came":                   {func(c *mail.Case) { c.Conversations = nil }, mail.Untried},
		"another identity each attempt": {func(c *mail.Case) { again(c) }, mail.Altered},
	} {
		cases := right()
		exhibit.damage(&cases[i])
		if found := mail.CheckHostile(cases); rig.CountKind(found, exhibit.want) == 0 {
			t.Errorf("%s: not noticed as %s: %v", name, exhibit.want, rig.List(found))
		}
	}
}

// taken is a conversation in which all went well.
func taken(plan mail.Plan) mail.Conversation {
	to := plan.Name() + "@example.com"
	return mail.Conversation{
		Clear: []string{"EHLO", "STARTTLS"}, Secret: true, Dot: true, Answered: true, Taken: true,
		Message: mail.Message{
			ID: "<1@sink.example>", Recipient: to, From: `"Shop" <shop@sink.example>`, To: "<" + to + ">", Subject: "News for " + to,
		},
	}
}

// again puts an attempt that was put off before the one that was taken, under another Message-ID.
func again(c *mail.Case) {
	before := c.Conversations[0]
	before.Taken, before.Message.ID = false, "<0@sink.example>"
	c.Conversations = append([]mail.Conversation{before}, c.Conversations...)
}
