package notification

import (
	"time"

	"github.com/oncegate/oncegate/inbox/attention"
)

// Decide runs decide on what a look saw, and returns the rows as they are afterwards, with what operators are told.
func Decide(now time.Time, fold, settle time.Duration, was []Open, things []Thing, partial map[attention.Kind]bool) (keep, opened, resolved []Open) {
	p := decide(now, fold, settle, was, look{things: things, partial: partial})
	return p.keep, p.opened, p.resolved
}

// Message returns the title and the text of a message.
func Message(kind, url string, things []Open, waiting int) (title, text string) {
	m := newMessage(kind, url, things, waiting)
	return m.Title, m.Text
}

// Seen converts what package attention found.
func Seen(found *attention.Attention, kinds []attention.Kind) []Thing {
	return seen(found, kinds).things
}
