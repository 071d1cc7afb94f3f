package mail

import (
	"slices"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// The kinds of violations of the guarantees for a hostile server.
const (
	Doubled       rig.Kind = "doubled"       // a server may have two messages of one effect
	Unproven      rig.Kind = "unproven"      // done, and no server said 250 to the message
	Undecided     rig.Kind = "undecided"     // indeterminate, and the server's answer was whole or the message was not
	Pretended     rig.Kind = "pretended"     // the end of the message was not answered, and the effect is not indeterminate
	Buried        rig.Kind = "buried"        // dead, and no server said 5yz about the message
	Insisted      rig.Kind = "insisted"      // the server said 5yz about the message, and the effect is not dead
	Undelivered   rig.Kind = "undelivered"   // nothing stood against the message, and it is not done
	InTheClear    rig.Kind = "in the clear"  // something was said before the connection was encrypted
	Altered       rig.Kind = "altered"       // the message is not what was configured, or not the same in each attempt
	Misidentified rig.Kind = "misidentified" // the effect's result is not the Message-ID that the server has
	Untried       rig.Kind = "untried"       // a fault was planned, and no conversation met it
)

// CheckHostile compares what the servers saw with what the database says.
func CheckHostile(cases []Case) []rig.Violation {
	var found []rig.Violation
	for i := range cases {
		found = append(found, cases[i].check()...)
	}
	for _, plan := range Plans() {
		if !slices.ContainsFunc(cases, func(c Case) bool { return c.Plan == plan && len(c.Conversations) > 0 }) {
			found = append(found, rig.NewViolation(Untried, "%s", plan.Name()))
		}
	}
	return found
}

// allowedInTheClear are the commands that a client may send before it has encrypted the connection, because none is
// about a message.
var allowedInTheClear = []string{"EHLO", "HELO", "STARTTLS", "QUIT", "NOOP", "RSET"}

func (c *Case) check() []rig.Violation {
	var found []rig.Violation
	add := func(kind rig.Kind, format string, args ...any) {
		found = append(found, rig.NewViolation(kind, "%s: "+format, append([]any{c.Plan.Name()}, args...)...))
	}
	kept, taken, open, refused, id := 0, 0, 0, false, ""
	for i := range c.Conversations {
		talk := &c.Conversations[i]
		refused = refused || talk.Refused
		if talk.kept() {
			kept++
		}
		if talk.Dot && !talk.Answered {
			open++
		}
		if talk.Taken {
			taken, id = taken+1, talk.Message.ID
		}
		if talk.Dot && talk.Message != c.want(talk.Message.ID) {
			add(Altered, "conversation %d: %+v, want %+v", i+1, talk.Message, c.want(talk.Message.ID))
		}
		if talk.Dot && talk.Message.ID != c.firstID() {
			add(Altered, "conversation %d: Message-ID %s, and before %s", i+1, talk.Message.ID, c.firstID())
		}
		for _, verb := range talk.Clear {
			if c.Plan.Encrypted && !slices.Contains(allowedInTheClear, verb) {
				add(InTheClear, "conversation %d: %.20q", i+1, verb)
			}
		}
	}
	if kept > 1 {
		add(Doubled, "%d messages", kept)
	}
	switch {
	case c.State == "done" && taken == 0:
		add(Unproven, "after %d conversations", len(c.Conversations))
	case c.State == "done" && c.ID != id:
		add(Misidentified, "result %q, and the server has %q", c.ID, id)
	}
	switch {
	case open > 0 && c.State != "indeterminate":
		add(Pretended, "%s", c.State)
	case open == 0 && c.State == "indeterminate":
		add(Undecided, "after %d conversations", len(c.Conversations))
	case refused && c.State != "dead":
		add(Insisted, "%s after %d conversations", c.State, len(c.Conversations))
	case !refused && c.State == "dead":
		add(Buried, "after %d conversations", len(c.Conversations))
	case open == 0 && !refused && c.State != "done":
		add(Undelivered, "%s after %d conversations", c.State, len(c.Conversations))
	}
	return found
}

// want is the message as it was configured.
func (c *Case) want(id string) Message {
	to := recipientOf(c.Plan)
	return Message{ID: id, Recipient: to, From: `"Shop" <shop@sink.example>`, To: "<" + to + ">", Subject: "News for " + to}
}

// firstID is the Message-ID of the first attempt that got so far.
func (c *Case) firstID() string {
	for i := range c.Conversations {
		if c.Conversations[i].Dot {
			return c.Conversations[i].Message.ID
		}
	}
	return ""
}
