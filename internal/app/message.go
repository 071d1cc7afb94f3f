package app

import (
	"bytes"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/jobs/effect/mail"
)

// messageFeatures returns what a route's message has in addition to its texts. It leaves out what the message does not
// use.
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

// sameRequest reports whether the request that was sent equals today's. It ignores signatures of messages, because they
// contain the time at which they were made.
func sameRequest(a, b []byte) bool { return bytes.Equal(mail.Unsigned(a), mail.Unsigned(b)) }
