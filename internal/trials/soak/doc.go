// Package soak runs the real binary under a steady load and reports what grows.
//
// Run it with ./scripts/soak -length 20m. It needs the machine for itself. -leak plants a fault: the binary then loses
// that many bytes with each delivery, and the verdict has to say so.
//
// It prints a line a minute, then a table with a row for each figure, such as resident memory, goroutines, open files,
// connections, the log, the size of tables, unsettled effects and latency: its first, mean and last value, its slope a
// minute, how much it grew and how much that may be. The last line says PASSED or FAILED.
//
// How it works: senders deliver at a fixed rate: new events, duplicates, payloads that conflict, and deliveries with a
// wrong signature. Effects are forwarded to a target that answers one request in a hundred with 503, and settled effects
// are pruned after a minute. [Judge] fits a line through the samples of each figure after a warm-up. A figure fails if
// even the lower end of the slope's confidence interval means more growth than is allowed.
//
// It does not use the senders and the ledgers of internal/drill. A ledger of all events would grow during the whole run,
// and pruned effects cannot be compared with it.
package soak
