// Package notification sends operators a message when something needs them, another one when it no longer does, and a daily digest if
// they want one.
//
// A message is an event of a source of the configuration. The source must be open to emit. Its routes carry the message to a chat, a
// pager or a mailbox, with the same retries, dead letters, pauses and tests as every other effect.
//
// A [Watcher] reads the open items of package attention every half minute and compares them with the table notification. Several
// processes may do this at the same time. The row in notification_look decides which of them writes. One transaction changes the table
// and puts the message into the outbox, so each change produces one message.
package notification
