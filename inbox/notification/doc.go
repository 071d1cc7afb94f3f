// Package notification tells operators what waits for them: once when it begins to wait, once when it is over, and once a day if they
// want a digest.
//
// A notification is an event of a source of the configuration, which must be open to emit. The routes of that source carry it to a chat, a
// pager or a mailbox, with the retries, the dead letters, the pauses and the tests that every other effect has.
//
// A [Watcher] looks at what package attention finds every half minute and compares what waits with the table notification. Any number of processes may
// look. The row in notification_look decides which of them writes: the change of the table and the message, which goes into the outbox,
// are one transaction.
package notification
