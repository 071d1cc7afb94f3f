// Package ledger records what happened outside of Oncegate: what senders sent and how it was answered ([Sent]), and what
// targets received ([Received]). The checks at the end of a drill or a trial compare the ledgers with the tables.
package ledger
