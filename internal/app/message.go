package app

import (
	"bytes"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/jobs/effect/mail"
)

// messageFeatures is what a route's message has beside its texts. What it does not use is left out.
func messageFeatures(r *config.Route) (out []any) {
	m := r.Mail
	if m.ReplyTo != "" {
		out = append(out, "reply_to", m.ReplyTo)
	}
	if len(m.ListUnsubscribe) > 0 {
		out = append(out, "list_unsubscribe", m.ListUnsubscribe, m.OneClick)
	}
	if m.Attachments != nil {
		out = append(out, "attachments", m.Attachments.String())
	}
	return out
}

// sameRequest compares what was sent with what would be. Signatures of messages are left out: they hold the time at which they
// were made.
func sameRequest(a, b []byte) bool { return bytes.Equal(mail.Unsigned(a), mail.Unsigned(b)) }
