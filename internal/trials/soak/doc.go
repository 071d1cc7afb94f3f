// Package soak runs the real binary under a steady load and reports what grows. Senders
// deliver at a fixed rate: new events, duplicates, payloads that conflict and signatures
// that do not match. Effects are forwarded to a target that now and then answers 503, and
// settled effects are pruned after a minute. Meanwhile memory, goroutines, files,
// connections, the log, the size of tables, what is unsettled and the latency of
// acknowledgements are sampled.
//
// [Judge] fits a line through the samples of each after a warm-up. A figure fails if even
// the lower end of the slope's confidence interval means more growth than is allowed.
package soak
