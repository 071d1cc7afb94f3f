// Package lists mails long lists through the real binary and a mail server, kills the process in the middle, and counts
// what each recipient got.
//
// Run it with ./scripts/lists 10000, which is the number of recipients. It uses TEST_DATABASE_URL, or the script starts
// a PostgreSQL.
//
// It prints how long a list took from its call to its last message, the largest resident memory of the process, and how
// the list with kills ended. Then it prints a line for each finding, such as a recipient who was mailed twice. Each
// finding fails the test.
//
// How it works: one call of an operation names all recipients, and nothing disturbs it. A second call, under another
// campaign, names them again while the process is killed with SIGKILL: while the list is written, and while it is sent.
// A third call repeats the second one's campaign, with another recipient instead of one. The mail server keeps a ledger
// by Message-ID and recipient. [Check] compares: no recipient is mailed twice, and none is left out except those whose
// message was under way at a kill. A mail server cannot tell whether it got such a message, so it waits for an
// operator.
package lists
