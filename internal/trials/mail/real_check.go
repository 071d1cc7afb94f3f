package mail

import (
	"strings"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// The kinds of violations of the guarantees for a mail server that behaves correctly. [Doubled], [Undelivered],
// [Altered] and [Untried] are the others.
const (
	Lost      rig.Kind = "lost"      // done, and not in the Maildir
	Unwanted  rig.Kind = "unwanted"  // a message that no call asked for
	Excessive rig.Kind = "excessive" // more are indeterminate than were under way at the kill
)

// CheckReal compares the Maildir with what was wanted and with the database.
func CheckReal(v *Evidence) []rig.Violation {
	var found []rig.Violation
	add := func(kind rig.Kind, format string, args ...any) {
		found = append(found, rig.NewViolation(kind, format, args...))
	}
	arrived, ids := map[Wanted]int{}, map[string]Wanted{}
	for _, m := range v.Delivered {
		w := Wanted{m.Recipient, m.Subject}
		arrived[w]++
		if m.From != `"Shop" <shop@sink.example>` || m.To != "<"+m.Recipient+">" {
			add(Altered, "%s: from %s to %s", m.Recipient, m.From, m.To)
		}
		if !strings.Contains(m.Signature, "d=sink.example") || !strings.Contains(m.Signature, "s=trial") {
			add(Altered, "%s: the signature is %.60q", m.Recipient, m.Signature)
		}
		if !strings.Contains(m.Received, "SMTPS") { // ESMTPS or UTF8SMTPS
			add(InTheClear, "%s: %.200q", m.Recipient, m.Received)
		}
		if before, known := ids[m.ID]; known && before != w || m.ID == "" {
			add(Misidentified, "%q is the Message-ID of %v and of %v", m.ID, before, w)
		}
		ids[m.ID] = w
	}
	states, indeterminate := map[Wanted]Effect{}, 0
	for _, e := range v.Effects {
		states[Wanted{e.Message.Recipient, e.Message.Subject}] = e
		if e.State == "indeterminate" {
			indeterminate++
		}
	}
	for _, w := range v.Wanted {
		e, n := states[w], arrived[w]
		switch {
		case n > 1:
			add(Doubled, "%v: %d messages", w, n)
		case n == 0 && e.State == "done":
			add(Lost, "%v", w)
		case e.State != "done" && e.State != "indeterminate":
			add(Undelivered, "%v is %q", w, e.State)
		case n == 1 && ids[e.Message.ID] != w:
			add(Misidentified, "%v: no message is %q", w, e.Message.ID)
		}
		delete(arrived, w)
	}
	for w := range arrived {
		add(Unwanted, "%v", w)
	}
	if indeterminate > v.UnderWay {
		add(Excessive, "%d are indeterminate, and at most %d were under way", indeterminate, v.UnderWay)
	}
	if v.AtKill == 0 || v.AtKill >= len(v.Wanted) {
		add(Untried, "%d messages of %d had arrived at the kill", v.AtKill, len(v.Wanted))
	}
	return found
}
